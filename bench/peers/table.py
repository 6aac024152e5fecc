"""Reduces samples to medians, and these to a table for people and JSON for programs."""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Target:
    """weft / peer must be at_least or at_most this; without a peer, weft's own figure."""
    at_least: float | None = None
    at_most: float | None = None

    def met(self, found):
        return (self.at_least is None or found >= self.at_least) and (self.at_most is None or found <= self.at_most)

    def text(self, unit):
        return f">= {self.at_least:g}{unit}" if self.at_least is not None else f"<= {self.at_most:g}{unit}"


def summary_of(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "samples": values}


def rows_of(samples, targets):
    """samples: one dictionary per run, measure -> (peer or None, weft). The ratio is that of the medians."""
    rows = []
    for measure in samples[0]:
        peer, weft = ([sample[measure][i] for sample in samples] for i in (0, 1))
        row = {"measure": measure, "peer": None if None in peer else summary_of(peer), "weft": summary_of(weft),
               "ratio": None, "target": None, "met": None}
        if row["peer"]:
            row["ratio"] = row["weft"]["median"] / row["peer"]["median"]
        if measure in targets:
            found, unit = (row["ratio"], "x") if row["peer"] else (row["weft"]["median"], "")
            row["target"], row["met"] = targets[measure].text(unit), targets[measure].met(found)
        rows.append(row)
    return rows


def number(value):
    """Formats to about three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def spread(figures):
    if figures is None:
        return "-"
    if len(figures["samples"]) == 1:
        return number(figures["median"])
    return f"{number(figures['median'])} ({number(figures['min'])} to {number(figures['max'])})"


def text_of(comparisons):
    """comparisons: name -> rows. One line per row, in columns."""
    lines = [("size", "measure", "peer", "weft", "ratio", "target", "")]
    for name, rows in comparisons.items():
        for row in rows:
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}x"
            verdict = {None: "", True: "met", False: "NOT MET"}[row["met"]]
            lines.append((name, row["measure"], spread(row["peer"]), spread(row["weft"]), ratio, row["target"] or "-", verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    left = (0, 1, 6)
    return "\n".join("  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def verdict_of(comparisons):
    missed = [f"{name}: {row['measure']}" for name, rows in comparisons.items() for row in rows if row["met"] is False]
    judged = sum(row["met"] is not None for rows in comparisons.values() for row in rows)
    if not judged:
        return "no targets"
    return f"{len(missed)} of {judged} targets NOT met: {'; '.join(missed)}" if missed else f"all {judged} targets met"
