"""What two runs of one schedule have in common."""

import dataclasses
import re


def comparable(steps):
    """The steps with ids as they would be in any process: counted from the run's first.

    A run's first id is a multiple of 1,024 above those of all nodes there are, so a replay
    may begin at another one.
    """
    return [
        dataclasses.replace(
            note, what=re.sub(r"(?<=node )\d+", lambda id_: str(int(id_[0]) % 1024), note.what)
        )
        for note in steps
    ]
