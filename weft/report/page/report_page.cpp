#include "weft/report/page/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "weft/base/local_time.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/history/figure_text.h"
#include "weft/report/page/html_text.h"
#include "weft/report/page/page_charts.h"
#include "weft/report/page/thinned.h"

namespace weft {
namespace {

/// A string in the page's JSON, which a script element must not end.
std::string json_text(const std::string& text) {
  std::string json = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') json += '\\';
    json += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return json + "\"";
}

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; }

std::string json_numbers(const std::vector<double>& values) {
  std::string json = "[";
  for (const double value : values) json += (json.size() > 1 ? "," : "") + json_number(value);
  return json + "]";
}

/// The axes that a run's curves can be drawn over.
std::map<std::string, std::vector<double>> axes_of(const Metrics& metrics) {
  std::map<std::string, std::vector<double>> axes;
  axes["step"] = {metrics.steps.begin(), metrics.steps.end()};
  for (const char* name : {"samples", "tokens", "epoch"}) {
    if (const std::vector<double>* column = metrics.column(name)) axes[name] = *column;
  }
  if (const std::vector<double>* seconds = metrics.column("seconds")) {
    axes["hours"] = *seconds;
    for (double& x : axes["hours"]) x /= 3600.0;
  }
  return axes;
}

/// The values of an evaluation set over each axis: a point per evaluation.
std::string sets_json(const Metrics& metrics, const std::map<std::string, std::vector<double>>& axes) {
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<double>>> sets;
  for (const EvaluationRecord& evaluation : metrics.evaluations) {
    for (const RecordValue& value : evaluation.values) {
      auto& [steps, ys] = sets[evaluation.set + "/" + value.name];
      steps.push_back(evaluation.step);
      ys.push_back(value.value);
    }
  }
  std::string json;
  for (const auto& [name, points] : sets) {
    std::string xs;
    for (const auto& [axis, values] : axes) {
      std::vector<double> at;
      for (const int64_t step : points.first) {
        const auto next = std::lower_bound(metrics.steps.begin(), metrics.steps.end(), step) - metrics.steps.begin();
        const size_t place = std::min(static_cast<size_t>(next), values.empty() ? 0 : values.size() - 1);
        at.push_back(axis == "step" || values.empty() ? static_cast<double>(step) : values[place]);
      }
      xs += fmt::format("{}{}:{}", xs.empty() ? "" : ",", json_text(axis), json_numbers(at));
    }
    json += fmt::format("{}{}:{{\"x\":{{{}}},\"y\":{}}}", json.empty() ? "" : ",", json_text(name), xs,
                        json_numbers(points.second));
  }
  return json;
}

std::string run_json(const RunHistory& run, const std::string& name, const std::set<std::string>& shown, size_t points) {
  const Metrics& metrics = run.metrics();
  const std::vector<size_t> bounds = thinned_groups(metrics.steps.size(), points);
  const auto axes = axes_of(metrics);
  std::string xs, curves;
  for (const auto& [axis, values] : axes) {
    xs += fmt::format("{}{}:{}", xs.empty() ? "" : ",", json_text(axis), json_numbers(thinned_ends(values, bounds)));
  }
  for (const MetricColumn& column : metrics.columns) {
    if (shown.count(column.name) == 0) continue;
    const ThinnedCurve curve = thinned(column.values, bounds);
    curves += fmt::format("{}{}:{{\"low\":{},\"mean\":{},\"high\":{}}}", curves.empty() ? "" : ",", json_text(column.name),
                          json_numbers(curve.low), json_numbers(curve.mean), json_numbers(curve.high));
  }
  return fmt::format("{{\"name\":{},\"x\":{{{}}},\"curves\":{{{}}},\"sets\":{{{}}}}}", json_text(name), xs, curves,
                     sets_json(metrics, axes));
}

std::string fact_row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, html_text(value));
}

/// Facts of a run for the summary, by name.
std::vector<std::pair<std::string, std::string>> page_facts(const RunHistory& run, double now_s) {
  const Metrics& metrics = run.metrics();
  const auto last = [&](const char* name) { return last_value(metrics, name); };
  const std::string ranks = start_detail(run, "ranks");
  std::string evaluation;
  if (!metrics.evaluations.empty()) {
    for (const RecordValue& value : metrics.evaluations.back().values) {
      if (value.name != "seconds")
        evaluation += fmt::format("{}{} {:.4g}", evaluation.empty() ? "" : ", ", value.name, value.value);
    }
  }
  const auto tokens = median_value(metrics, "tokens_per_s"), samples = median_value(metrics, "samples_per_s");
  const auto seconds = last("seconds"), loss = last("loss");
  return {{"state", fmt::format("{}, step {} of {}{}", standing_name(standing_of(run, now_s)),
                                metrics.steps.empty() ? 0 : metrics.steps.back(), steps_in_all(run), damage_text(metrics))},
          {"folder", run.path},
          {"model", fmt::format("{} on {} rank{} ({})", start_detail(run, "recipe.model.name"), ranks, ranks == "1" ? "" : "s",
                                start_detail(run, "hosts"))},
          {"started", run.events.empty() ? "" : local_time_text(run.events.front().time_s)},
          {"time", seconds ? format_duration(*seconds) : ""},
          {"loss", loss ? figure_text(*loss) : ""},
          {"last evaluation", evaluation},
          {"error", failure_of(run, now_s)},
          {"rate, median", tokens    ? format_count(*tokens) + " tokens/s"
                           : samples ? format_count(*samples) + " samples/s"
                                     : ""}};
}

/// A column per run.
std::string summary_html(const std::vector<const RunHistory*>& runs, const std::vector<std::string>& names, double now_s) {
  std::vector<std::string> rows;
  std::string head = "<tr><th></th>";
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto facts = page_facts(*runs[i], now_s);
    rows.resize(facts.size());
    head += fmt::format("<th scope=\"col\">{}</th>", html_text(names[i]));
    for (size_t j = 0; j < facts.size(); ++j) {
      if (i == 0) rows[j] = fmt::format("<tr><th scope=\"row\">{}</th>", facts[j].first);
      rows[j] += fmt::format("<td>{}</td>", html_text(facts[j].second));
    }
  }
  std::string text = "<div class=\"wide\"><table>\n<thead>" + head + "</tr></thead>\n<tbody>\n";
  for (const std::string& row : rows) text += row + "</tr>\n";
  return text + "</tbody></table></div>\n";
}

/// Each run's name, or its folder where several have one name.
std::vector<std::string> distinct_names(const std::vector<const RunHistory*>& runs) {
  std::vector<std::string> names;
  names.reserve(runs.size());
  for (const RunHistory* run : runs) {
    names.push_back(shares_name(*run, runs) ? run->path : name_of(*run));
  }
  return names;
}

std::string events_html(const RunHistory& run) {
  constexpr size_t kMost = 200;
  std::string rows;
  const size_t first = run.events.size() > kMost ? run.events.size() - kMost : 0;
  for (size_t i = first; i < run.events.size(); ++i) {
    const EventRecord& event = run.events[i];
    const bool warns = event.kind == "warning" || event.kind == "error";
    rows += fmt::format("<tr{}><td class=\"time\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>\n",
                        warns ? " class=\"warning\"" : "", local_time_text(event.time_s), event.step, html_text(event.kind),
                        html_text(event.text));
  }
  const std::string more =
      first > 0 ? fmt::format("<p class=\"quiet\">The last {} of {}.</p>\n", kMost, run.events.size()) : "";
  return more +
         "<div class=\"wide\"><table><thead><tr><th scope=\"col\">time</th><th scope=\"col\" class=\"number\">step</th><th "
         "scope=\"col\">event</th><th scope=\"col\"></th></tr></thead>\n<tbody>" +
         rows + "</tbody></table></div>\n";
}

std::string recipe_html(const RunHistory& run, const std::map<std::string, std::string>& defaults) {
  std::string set, left;
  for (const auto& [key, value] : start_details(run, "recipe.")) {
    const auto usual = defaults.find(key);
    (usual != defaults.end() && usual->second == value ? left : set) += fact_row(html_text(key), value);
  }
  std::string text = "<div class=\"wide\"><table>\n" + set + "</table></div>\n";
  if (!left.empty())
    text +=
        "<details><summary>Left at their defaults</summary><div class=\"wide\"><table>\n" + left + "</table></div></details>\n";
  std::string layout;
  for (const auto& [key, value] : start_details(run, "layout.")) layout += fact_row(html_text(key), value);
  for (const auto& [key, value] : start_details(run, "version.")) layout += fact_row(html_text(key), value);
  return text + "<h3>Layout and versions</h3><table>\n" + layout + "</table>\n";
}

std::string chart_html(const PageChart& chart, size_t index) {
  return fmt::format(
      "<figure id=\"chart{0}\"{1}><figcaption id=\"title{0}\">{2}</figcaption>\n"
      "<svg role=\"img\" tabindex=\"0\" aria-labelledby=\"title{0}\" aria-describedby=\"keys\"></svg>\n"
      "<div class=\"legend\"></div><div class=\"readout\" aria-live=\"polite\"></div>\n"
      "<details><summary>Table</summary><div class=\"wide\"></div></details></figure>\n",
      index, chart.large ? " class=\"large\"" : "", html_text(chart.title));
}

std::string controls_html(const std::set<std::string>& axes) {
  std::string options;
  for (const char* axis : {"step", "samples", "tokens", "epoch", "hours"}) {
    if (axes.count(axis) > 0) options += fmt::format("<option>{}</option>", axis);
  }
  return fmt::format(
      "<div class=\"controls\"><label>Over <select id=\"axis\">{}</select></label>\n"
      "<label>Smoothing <input id=\"smooth\" type=\"range\" min=\"0\" max=\"0.98\" step=\"0.02\" value=\"0\"></label>\n"
      "<label><input id=\"log\" type=\"checkbox\"> logarithmic</label> <button id=\"reset\" type=\"button\">Whole "
      "range</button>\n"
      "<span id=\"keys\" class=\"quiet\">Drag to zoom, double-click for all. Keys: arrows, + and -, Escape.</span></div>\n",
      options);
}

/// What the page draws: its HTML, and the data of the script that draws it.
struct PageCurves {
  std::string html = {}, json = {};
};

PageCurves curves_of(const std::vector<const RunHistory*>& runs, const std::vector<std::string>& names, size_t points) {
  const std::vector<PageChart> charts = charts_of(runs);
  if (charts.empty()) return {};
  std::set<std::string> shown, axes;
  for (const PageChart& chart : charts) shown.insert(chart.names.begin(), chart.names.end());
  std::string runs_json, charts_json, figures;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [axis, values] : axes_of(runs[i]->metrics())) axes.insert(axis);
    runs_json += (i > 0 ? ",\n" : "") + run_json(*runs[i], names[i], shown, points);
  }
  for (size_t i = 0; i < charts.size(); ++i) {
    std::string of_chart;
    for (const std::string& name : charts[i].names) of_chart += (of_chart.empty() ? "" : ",") + json_text(name);
    charts_json += fmt::format("{}{{\"id\":\"chart{}\",\"names\":[{}]}}", i > 0 ? "," : "", i, of_chart);
    figures += chart_html(charts[i], i);
  }
  return {"<h2>Curves</h2>\n" + controls_html(axes) +
              "<noscript><p>The curves are drawn by a script, which this browser does not run.</p></noscript>\n<div "
              "class=\"charts\">\n" +
              figures + "</div>\n",
          fmt::format("{{\"runs\":[{}],\n\"charts\":[{}]}}", runs_json, charts_json)};
}

/// The script and its data; empty: there is nothing to draw.
std::string script_html(const std::string& json) {
  if (json.empty()) return {};
  return fmt::format("<script id=\"data\" type=\"application/json\">\n{}\n</script>\n<script>{}</script>\n", json,
                     report_script());
}

std::string head_html(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{}: weft report</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>{}</style>\n</head>\n",
      title, report_style());
}

}  // namespace

std::string report_page(const std::vector<const RunHistory*>& runs, const ReportOptions& options) {
  const std::map<std::string, std::string> defaults(options.defaults.begin(), options.defaults.end());
  const std::vector<std::string> names = distinct_names(runs);
  std::string title;
  for (const auto* of : {&names, &options.studies}) {
    for (const std::string& name : *of) title += (title.empty() ? "" : ", ") + html_text(name);
  }
  const PageCurves curves = curves_of(runs, names, options.points);
  std::string body =
      fmt::format("<h1>{}</h1>\n<p class=\"quiet\">weft report of {}</p>\n", title, local_time_text(options.now_s));
  if (!runs.empty()) body += "<h2>Summary</h2>\n" + summary_html(runs, names, options.now_s);
  body += curves.html;
  for (size_t i = 0; i < options.parts.size(); ++i) body += part_html(options.parts[i], i);
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string of = runs.size() > 1 ? ": " + html_text(names[i]) : "";
    body += fmt::format("<h2>Events{0}</h2>\n{1}<h2>Recipe{0}</h2>\n{2}", of, events_html(*runs[i]),
                        recipe_html(*runs[i], defaults));
  }
  if (!options.command.empty())
    body += "<h2>How to run it again</h2>\n<pre tabindex=\"0\">" + html_lines(options.command) + "</pre>\n";
  return head_html(title) + "<body>\n<main>\n" + body + "</main>\n" + script_html(curves.json) + "</body>\n</html>\n";
}

}  // namespace weft
