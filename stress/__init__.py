"""The deadlock stress suite: real threads, tiny switch interval, a watcher in another process.

``python -m stress --threads N --seconds S --seed K --profile trainers|churn|merge|hazards|all``
"""
