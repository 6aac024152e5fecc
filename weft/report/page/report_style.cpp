#include "weft/report/page/report_page.h"

namespace weft {

const char* report_style() {
  return R"css(
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --quiet: #57606a; --line: #c9d1d9; --panel: #f6f8fa; --track: #eaebef; --dark: #464646;
  --warn: #9a3412; --s0: #1f5fbf; --s1: #a34a00; --s2: #2a7230; --s3: #8527a0; --s4: #006e63; --s5: #b3261e; --s6: #5b5b00; --s7: #7a3e6b; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0f1318; --text: #e6edf3; --quiet: #9aa4af; --line: #3a424c; --panel: #171c23; --track: #262d36; --dark: #76808b;
    --warn: #ffb37a; --s0: #79b0ff; --s1: #ffb061; --s2: #7fd38a; --s3: #dba2f0; --s4: #63d6c8; --s5: #ff9a91; --s6: #d8d86a; --s7: #e7a6d3; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; background: var(--back); color: var(--text); }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; }
.wide { overflow-x: auto; }
@media (min-width: 600px) { .time { white-space: nowrap; } }
.quiet, caption { color: var(--quiet); }
.warning td { color: var(--warn); font-weight: 600; }
.controls { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; padding: .5rem;
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
.controls label { display: flex; gap: .4rem; align-items: center; }
select, button, input { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--quiet); border-radius: 4px; padding: .15rem .5rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 1rem; margin-top: 1rem; }
figure { margin: 0; padding: .5rem; border: 1px solid var(--line); border-radius: 6px; min-width: 0; }
figure.large { grid-column: 1 / -1; }
figcaption { font-weight: 600; }
figure svg { display: block; width: 100%; height: auto; touch-action: pan-y; user-select: none; }
figure svg:focus { outline: none; }
figure svg:focus-visible { outline: 2px solid var(--s0); }
figure svg text { fill: var(--quiet); font-size: 11px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .cursor { stroke: var(--quiet); stroke-dasharray: 3 3; }
svg .zoom { fill: var(--quiet); opacity: .25; }
:focus-visible { outline: 2px solid var(--s0); outline-offset: 2px; }
.legend, .readout { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .2rem 0; min-height: 1.5em; }
.legend i { display: inline-block; width: 1.1em; border-top: 3px solid; margin-right: .35em; vertical-align: middle; font-style: normal; }
details { margin-top: .3rem; }
summary { cursor: pointer; }
details .wide { max-height: 22rem; overflow: auto; }
.picture { overflow-x: auto; background: var(--back); border: 1px solid var(--line); border-radius: 6px; }
.picture svg > rect:first-of-type { fill: var(--back); }
.picture text:not(.number *) { fill: var(--text); }
.picture [fill="#eeeef1"] { fill: var(--track); }
.picture [fill="#464646"] { fill: var(--dark); }
.picture .axis path, .picture .axes path { stroke: var(--line); }
.picture .open { fill: var(--back); }
.bars { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1rem; align-items: center; }
.bars p { display: flex; gap: .5rem; align-items: center; margin: 0; line-height: 1.3; font-variant-numeric: tabular-nums; }
.bars i { flex: none; height: .8rem; border-radius: 2px; print-color-adjust: exact; }
pre { overflow-x: auto; background: var(--panel); padding: .6rem; border-radius: 6px; }
@media print { .controls, .readout { display: none; } figure { break-inside: avoid; } body { max-width: none; } }
)css";
}

}  // namespace weft
