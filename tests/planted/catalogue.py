"""Every planted fault by its name, from whatever file states it."""

import faults
import faults_met

FAULTS = {**faults.FAULTS, **faults_met.FAULTS}
