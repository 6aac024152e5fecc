#include "weft/cli/health/health_text.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>

#include "weft/base/units.h"

namespace weft {

namespace {

double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

const char* state_name(RunPhase state) {
  switch (state) {
    case RunPhase::starting:
      return "starting";
    case RunPhase::running:
      return "running";
    case RunPhase::restarting:
      return "restarting";
  }
  return "";
}

/// Seconds since the last step, or since this launch began if that is later.
double without_step_s(const RunView& run, int64_t now_ns) {
  return seconds_between(std::max(run.step_ns, run.begin_ns), now_ns);
}

/// Returns true if steps are expected.
bool counts_steps(const RunView& run) { return run.begin_ns > 0 && (!run.is_custom_program || run.step_ns > 0); }

/// Returns name="value" in Prometheus' format.
std::string label(const char* name, const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return fmt::format("{}=\"{}\"", name, text);
}

/// Builds the text of metrics, one after another.
class PrometheusText {
 public:
  explicit PrometheusText(const HealthLabels& labels)
      : run_(fmt::format("{},{}", label("run", labels.run), label("job", labels.job))), host_(label("host", labels.host)) {}

  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP weft_{0} {1}\n# TYPE weft_{0} {2}\n", name, help, type);
  }
  /// Adds a value of the current metric, for this host unless `host` is given, with `further` labels.
  template <class Value>
  void add(const Value& value, const std::string& further = "", const std::string& host = "") {
    text_ += fmt::format("weft_{}{{{},{}{}{}}} {}\n", name_, run_, host.empty() ? host_ : host, further.empty() ? "" : ",",
                         further, value);
  }
  template <class Value>
  void one(const char* name, const char* type, const char* help, const Value& value) {
    begin(name, type, help);
    add(value);
  }
  std::string text() const { return text_; }

 private:
  std::string run_, host_, name_, text_;
};

void add_hosts(PrometheusText& metrics, const RunView& run, int64_t now_ns) {
  const auto number = [](const HostStatus& host) { return fmt::format("node=\"{}\"", host.node); };
  metrics.begin("host_up", "gauge", "1 while the host's agent is connected");
  for (const HostStatus& host : run.hosts) metrics.add(host.is_there ? 1 : 0, number(host), label("host", host.name));
  metrics.begin("host_silent_seconds", "gauge", "Seconds since the last message from the host");
  for (const HostStatus& host : run.hosts) {
    if (!host.is_there) continue;
    metrics.add(fmt::format("{:.3f}", seconds_between(host.heard_ns, now_ns)), number(host), label("host", host.name));
  }
}

void add_figures(PrometheusText& metrics, const RunFigures& figures, int64_t now_ns) {
  metrics.one("loss", "gauge", "Loss of the last step", figures.loss);
  metrics.one("learning_rate", "gauge", "Learning rate of the last step", figures.lr);
  metrics.one("samples_done", "gauge", "Samples that the run has trained on", figures.samples);
  if (figures.tokens > 0.0) metrics.one("tokens_done", "gauge", "Tokens that the run has trained on", figures.tokens);
  metrics.one("samples_per_second", "gauge", "Samples a second over the last few steps", figures.samples_per_s);
  metrics.one("memory_bytes", "gauge", "Resident memory of rank 0", figures.memory_bytes);
  if (figures.saved_ns == 0) return;
  metrics.one("last_save_age_seconds", "gauge", "Seconds since the last checkpoint was complete",
              fmt::format("{:.3f}", seconds_between(figures.saved_ns, now_ns)));
}

}  // namespace

HealthAnswer health_answer(const RunView& run, HealthQuestion question, double stalled_s, int64_t now_ns) {
  HealthAnswer answer;
  std::string text =
      fmt::format("{}, {}, {} done", state_name(run.state), counted(run.ranks, "rank"), counted(run.steps_done, "step"));
  if (run.is_led) text += fmt::format(", led by another host, {} here", counted(run.local_ranks, "rank"));
  if (run.restarts > 0) text += fmt::format(", {}", counted(run.restarts, "restart"));
  for (const HostStatus& host : run.hosts) {
    if (!host.is_there) text += fmt::format(", host {} is missing", host.name);
  }
  if (run.state != RunPhase::running) {
    answer.well = question == HealthQuestion::alive;
  } else if (const double idle_s = without_step_s(run, now_ns); stalled_s > 0.0 && idle_s > stalled_s && counts_steps(run)) {
    answer.well = false;
    text += fmt::format(", no step for {}", format_duration(idle_s));
  }
  answer.text = (answer.well ? "ok: " : question == HealthQuestion::alive ? "stalled: " : "not ready: ") + text + "\n";
  return answer;
}

std::string metrics_text(const RunView& run, const HealthLabels& labels, int64_t now_ns) {
  const bool is_running = run.state == RunPhase::running;
  PrometheusText metrics(labels);
  metrics.begin("build_info", "gauge", "Always 1; the versions are labels");
  metrics.add(1, label("version", WEFT_VERSION) + "," + label("libtorch", TORCH_VERSION));
  metrics.one("ranks", "gauge", "Running ranks on all hosts", is_running ? run.ranks : 0);
  metrics.one("local_ranks", "gauge", "Running ranks on this host", is_running ? run.local_ranks : 0);
  metrics.one("running", "gauge", "1 while ranks run, 0 while they start", is_running ? 1 : 0);
  metrics.one("restarts_total", "counter", "Number of times the ranks were restarted", run.restarts);
  metrics.one("steps_done", "gauge", "Completed steps of the run", run.steps_done);
  if (counts_steps(run)) {
    metrics.one("seconds_without_step", "gauge", "Seconds since the last step, or since these ranks started",
                fmt::format("{:.3f}", without_step_s(run, now_ns)));
  }
  if (run.figures.step_ns > 0) add_figures(metrics, run.figures, now_ns);
  if (!run.hosts.empty()) add_hosts(metrics, run, now_ns);
  return metrics.text();
}

}  // namespace weft
