#include "weft/report/page/report_page.h"

namespace weft {

// The page's data: {runs: [{name, x: {step, samples, ...}, curves: {name: {low, mean, high}}, sets: {name: {x: {...}, y}}}],
// charts:
// [{id, title, names}]}.
namespace {

constexpr const char* kScript = R"js(
(() => {
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const NS = 'http://www.w3.org/2000/svg';
const view = { axis: 'step', smooth: 0, log: false, zoom: null };
const HEIGHT = 230, LEAST_LEFT = 58, RIGHT = 14, TOP = 8, BOTTOM = 26;
const FEW_DIGITS = 4, MOST_DIGITS = 12;

const finite = (value) => value !== null && Number.isFinite(value);
const short = (value, digits = FEW_DIGITS) => {
  if (!finite(value)) return '-';
  const size = Math.abs(value);
  for (const [least, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (size >= least) return +(value / (least === 1e4 ? 1e3 : least)).toPrecision(digits) + unit;
  }
  return String(+value.toPrecision(digits));
};
// As many digits as tell numbers in this order apart.
const digits_of = (values) => {
  let digits = FEW_DIGITS;
  const is_alike = (value, i) => i > 0 && value !== values[i - 1] && short(value, digits) === short(values[i - 1], digits);
  while (digits < MOST_DIGITS && values.some(is_alike)) ++digits;
  return digits;
};
const make = (name, attributes, parent) => {
  const element = document.createElementNS(NS, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
};
const html = (name, parent, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.appendChild(element);
  return element;
};

// Exponential means over the points, as if they were equally far apart.
const smoothed = (values) => {
  if (view.smooth === 0) return values;
  let mean = 0, weight = 0;
  return values.map((value) => {
    if (!finite(value)) return null;
    mean = view.smooth * mean + (1 - view.smooth) * value;
    weight = view.smooth * weight + (1 - view.smooth);
    return mean / weight;
  });
};

const ticks = (low, high, count) => {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const all = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) all.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return all;
};

class Chart {
  constructor(figure, chart) {
    this.chart = chart;
    this.figure = figure;
    this.svg = figure.querySelector('svg');
    this.legend = figure.querySelector('.legend');
    this.readout = figure.querySelector('.readout');
    this.cursor = null;
    new ResizeObserver(() => this.resize()).observe(figure);
    this.svg.addEventListener('pointermove', (event) => this.move(event));
    this.svg.addEventListener('pointerleave', () => this.point(null));
    this.svg.addEventListener('pointerdown', (event) => { this.from = this.data_x(event); });
    this.svg.addEventListener('pointerup', (event) => this.release(event));
    this.svg.addEventListener('dblclick', () => zoom_to(null));
    this.svg.addEventListener('keydown', (event) => this.key(event));
    figure.querySelector('details').addEventListener('toggle', (event) => { if (event.target.open) this.table(); });
  }

  // Drawn at its own size, so that text is as large as the page's.
  resize() {
    const width = Math.max(240, Math.round(this.figure.clientWidth - 20));
    if (width === this.width) return;
    this.width = width;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.draw();
  }

  // Curves as drawn: each with x, its line and, unless smoothed, its extremes.
  curves() {
    const all = [];
    data.runs.forEach((run) => {
      this.chart.names.forEach((name) => {
        const label = data.runs.length > 1 ? (this.chart.names.length > 1 ? `${run.name}: ${name}` : run.name) : name;
        const curve = run.curves[name], set = run.sets[name];
        if (curve) all.push({ label, x: run.x[view.axis], y: smoothed(curve.mean), low: curve.low, high: curve.high, band: view.smooth === 0 });
        if (set) all.push({ label, x: set.x[view.axis], y: set.y, low: set.y, high: set.y, dots: true });
      });
    });
    all.forEach((curve, number) => { curve.color = `var(--s${number % 8})`; });
    return all.filter((curve) => curve.x && curve.y.some(finite));
  }

  draw() {
    if (!this.width) return;
    const WIDTH = this.width, curves = this.drawn = this.curves();
    this.svg.replaceChildren();
    this.legend.replaceChildren();
    const xs = curves.flatMap((curve) => curve.x).filter(finite);
    let [low_x, high_x] = view.zoom || [Math.min(...xs), Math.max(...xs)];
    if (!(high_x > low_x)) high_x = low_x + 1;
    const positive = view.log ? (value) => value > 0 : () => true;
    const ys = [];
    curves.forEach((curve) => curve.x.forEach((x, i) => {
      if (!finite(x) || x < low_x || x > high_x) return;
      for (const value of curve.band ? [curve.low[i], curve.high[i]] : [curve.y[i]]) if (finite(value) && positive(value)) ys.push(value);
    }));
    const scale = view.log ? Math.log10 : (value) => value;
    let low_y = scale(Math.min(...ys)), high_y = scale(Math.max(...ys));
    if (!finite(low_y)) { low_y = 0; high_y = 1; }
    if (!(high_y > low_y)) { const room = view.log ? 0.5 : Math.abs(low_y) / 2 || 0.5; low_y -= room; high_y += room; }
    const y_ticks = ticks(low_y, high_y, 5).map((tick) => (view.log ? 10 ** tick : tick)), x_ticks = ticks(low_x, high_x, Math.max(2, WIDTH / 110));
    const y_digits = digits_of(y_ticks), x_digits = digits_of(x_ticks), labels = y_ticks.map((tick) => short(tick, y_digits));
    this.digits = y_digits > FEW_DIGITS ? y_digits + 1 : FEW_DIGITS;
    const LEFT = Math.max(LEAST_LEFT, 10 + 7 * Math.max(...labels.map((label) => label.length)));
    this.x = (value) => LEFT + (value - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT);
    this.y = (value) => HEIGHT - BOTTOM - (scale(value) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM);
    this.inverse = (pixel) => low_x + (pixel - LEFT) / (WIDTH - LEFT - RIGHT) * (high_x - low_x);
    y_ticks.forEach((tick, i) => {
      const y = this.y(tick);
      make('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }, this.svg);
      make('text', { x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, this.svg).textContent = labels[i];
    });
    for (const tick of x_ticks) {
      make('text', { x: this.x(tick), y: HEIGHT - 8, 'text-anchor': 'middle' }, this.svg).textContent = short(tick, x_digits);
    }
    const clip = make('clipPath', { id: `clip-${this.chart.id}` }, this.svg);
    make('rect', { x: LEFT, y: TOP - 2, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM + 4 }, clip);
    const plot = make('g', { 'clip-path': `url(#clip-${this.chart.id})` }, this.svg);
    curves.forEach((curve) => this.draw_curve(plot, curve, positive));
    curves.forEach((curve) => {
      const entry = html('span', this.legend);
      html('i', entry).style.borderColor = curve.color;
      entry.append(`${curve.label}: ${short(curve.y.filter(finite).at(-1), this.digits)}`);
    });
    this.mark = make('g', {}, this.svg);
    if (this.cursor !== null) this.point(this.cursor >= low_x && this.cursor <= high_x ? this.cursor : null);
    if (this.figure.querySelector('details').open) this.table();
  }

  draw_curve(plot, curve, positive) {
    const shown = curve.x.map((x, i) => i).filter((i) => finite(curve.x[i]) && finite(curve.y[i]) && positive(curve.y[i]));
    if (curve.band) {
      const at = (i, value) => `${this.x(curve.x[i]).toFixed(1)},${this.y(positive(value) ? value : curve.y[i]).toFixed(1)}`;
      const points = shown.map((i) => at(i, curve.high[i])).concat(shown.slice().reverse().map((i) => at(i, curve.low[i])));
      make('polygon', { points: points.join(' '), style: `fill: ${curve.color}; opacity: .18` }, plot);
    }
    const points = shown.map((i) => `${this.x(curve.x[i]).toFixed(1)},${this.y(curve.y[i]).toFixed(1)}`);
    make('polyline', { points: points.join(' '), style: `fill: none; stroke: ${curve.color}; stroke-width: 1.6` }, plot);
    if (curve.dots || shown.length === 1) {
      shown.forEach((i) => make('circle', { cx: this.x(curve.x[i]), cy: this.y(curve.y[i]), r: 3, style: `fill: ${curve.color}` }, plot));
    }
  }

  data_x(event) {
    const box = this.svg.getBoundingClientRect();
    return this.inverse((event.clientX - box.left) / box.width * this.width);
  }

  move(event) {
    const x = this.data_x(event);
    this.point(x);
    if (this.from !== undefined && event.buttons) {
      const [a, b] = [this.from, x].sort((p, q) => p - q);
      make('rect', { class: 'zoom', x: this.x(a), y: TOP, width: this.x(b) - this.x(a), height: HEIGHT - TOP - BOTTOM }, this.mark);
    }
  }

  release(event) {
    const [a, b] = [this.from, this.data_x(event)].sort((p, q) => p - q);
    this.from = undefined;
    if (this.x(b) - this.x(a) > 8) zoom_to([a, b]);
  }

  key(event) {
    const xs = (this.drawn[0] || { x: [] }).x.filter(finite);
    if (xs.length === 0) return;
    const here = this.cursor === null ? xs.length - 1 : xs.reduce((best, x, i) => Math.abs(x - this.cursor) < Math.abs(xs[best] - this.cursor) ? i : best, 0);
    const [low, high] = view.zoom || [xs[0], xs[xs.length - 1]], middle = xs[here];
    if (event.key === 'ArrowLeft') this.point(xs[Math.max(0, here - 1)]);
    else if (event.key === 'ArrowRight') this.point(xs[Math.min(xs.length - 1, here + 1)]);
    else if (event.key === '+') zoom_to([middle - (middle - low) / 2, middle + (high - middle) / 2]);
    else if (event.key === '-') zoom_to([middle - (middle - low) * 2, middle + (high - middle) * 2]);
    else if (event.key === 'Escape') zoom_to(null);
    else return;
    event.preventDefault();
  }

  // Shows what the curves are at x.
  point(x) {
    this.cursor = x;
    this.mark.replaceChildren();
    this.readout.replaceChildren();
    if (x === null) return;
    make('line', { class: 'cursor', x1: this.x(x), x2: this.x(x), y1: TOP, y2: HEIGHT - BOTTOM }, this.mark);
    html('span', this.readout, `${view.axis} ${short(x)}`);
    this.drawn.forEach((curve) => {
      let best = -1;
      curve.x.forEach((value, i) => { if (finite(value) && finite(curve.y[i]) && (best < 0 || Math.abs(value - x) < Math.abs(curve.x[best] - x))) best = i; });
      if (best < 0) return;
      const extremes = curve.band && curve.high[best] > curve.low[best] ? ` (${short(curve.low[best], this.digits)} to ${short(curve.high[best], this.digits)})` : '';
      html('span', this.readout, `${curve.label} ${short(curve.y[best], this.digits)}${extremes}`).style.color = curve.color;
    });
  }

  table() {
    const place = this.figure.querySelector('details .wide');
    place.replaceChildren();
    this.drawn.forEach((curve) => {
      const table = html('table', place);
      html('caption', table, curve.label);
      const head = html('tr', html('thead', table));
      const names = curve.dots ? [view.axis, 'value'] : [view.axis, 'least', 'mean', 'greatest'];
      names.forEach((name) => { html('th', head, name, 'number').scope = 'col'; });
      const body = html('tbody', table), digits = digits_of(curve.x.filter(finite));
      curve.x.forEach((x, i) => {
        if (!finite(curve.y[i])) return;
        const row = html('tr', body);
        html('td', row, short(x, digits), 'number');
        for (const value of curve.dots ? [curve.y[i]] : [curve.low[i], curve.y[i], curve.high[i]]) html('td', row, short(value, this.digits), 'number');
      });
    });
  }
}

const charts = data.charts.map((chart) => new Chart(document.getElementById(chart.id), chart));
const draw = () => charts.forEach((chart) => { chart.width ? chart.draw() : chart.resize(); });
const zoom_to = (range) => { view.zoom = range; draw(); };
const control = (id, event, take) => document.getElementById(id).addEventListener(event, (change) => { take(change.target); draw(); });
control('axis', 'change', (target) => { view.axis = target.value; view.zoom = null; });
control('smooth', 'input', (target) => { view.smooth = Number(target.value); });
control('log', 'change', (target) => { view.log = target.checked; });
document.getElementById('reset').addEventListener('click', () => zoom_to(null));
draw();
})();
)js";

}  // namespace

const char* report_script() { return kScript; }

}  // namespace weft
