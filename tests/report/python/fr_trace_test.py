"""PyTorch's Flight Recorder analyzer reads weft's dumps, and finds in them who has not come, or makes another call.

usage: fr_trace_test.py FOLDER    FOLDER: as flight_recorder_sample has written it
"""

import logging
import pickle
import sys

from torch.distributed.flight_recorder import fr_trace


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def analysed(folder):
    """What the analyzer says, and the calls that it pairs."""
    lines = Lines()
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if "flight" in name.lower()]
    assert loggers, "the analyzer has no logger"
    for logger in loggers:
        logger.addHandler(lines)
    fr_trace.main([folder, "-p", "rank_", "-o", folder + ".db"])
    for logger in loggers:
        logger.removeHandler(lines)
    with open(folder + ".db", "rb") as file:
        database = pickle.load(file)[1]
    return "\n".join(lines.lines), database


def main(folder):
    text, database = analysed(folder + "/missing")
    assert "Not all ranks joining collective, sequence number: 5" in text, text
    assert text.count("Not all ranks joining") == 1, text
    assert "missing ranks: {3}" in text, text
    assert "gradients of all_to_all at dp:5" in text, text
    whole = [one for one in database.collectives if one.pass_check and not one.missing_ranks]
    names = sorted(one.collective_name for one in whole if one.pg_desc == "0:dp")
    assert names == ["nccl:_all_gather_base", "nccl:_reduce_scatter_base", "nccl:all_reduce", "nccl:all_reduce_barrier"], names
    messages = [one for one in whole if "pp from" in one.pg_desc]
    assert len(messages) == 4, database.collectives

    text, _ = analysed(folder + "/other")
    assert "Collective sequence number: 5 has errors" in text, text
    assert "Culprit rank 1" in text and "broadcast" in text, text


main(sys.argv[1])
