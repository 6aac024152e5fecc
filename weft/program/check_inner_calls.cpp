#include "weft/program/check_inner_calls.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "weft/program/axes.h"
#include "weft/program/defect.h"
#include "weft/program/limits.h"

namespace weft {
namespace {

constexpr int kMostCallRounds = 1 << 30;  // enough for a ring over the largest mesh

class InnerCallsCheck {
 public:
  explicit InnerCallsCheck(const Program& program) : program_(program) {}

  void run() const {
    const size_t given = program_.block_calls.size();
    if (given != 0 && given != program_.block_names.size()) {
      throw VerifyError(
          Defect::out_of_range, 0,
          fmt::format("program: calls inside blocks are given for {} blocks of {}", given, program_.block_names.size()));
    }
    for (size_t b = 0; b < given; ++b) {
      const InnerCalls& calls = program_.block_calls[b];
      const std::string block = fmt::format("block {} '{}'", b, program_.block_names[b]);
      check(calls.forward, "forward of " + block);
      check(calls.backward, "backward of " + block);
      check(calls.input, "backward_input of " + block);
      check(calls.weight, "backward_weight of " + block);
    }
    check(program_.loss_calls, "loss");
  }

 private:
  void check(const std::vector<InnerCall>& calls, const std::string& where) const {
    int64_t sum = 0;
    double begun = 0.0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto fail = [&](Defect defect, const std::string& text) {
        throw VerifyError(defect, 0, fmt::format("program: call {} inside the {}: {}", i, where, text));
      };
      const InnerCall& call = calls[i];
      if (call.axes.empty() || !inner_axes(program_).has(call.axes)) {
        fail(Defect::wrong_axis,
             fmt::format("along {}: must be along {}", call.axes.is_known() ? name(call.axes) : "an unknown axis",
                         name(inner_axes(program_))));
      }
      if (size_along(program_, call.axes) == 1) {
        fail(Defect::wrong_axis, fmt::format("along {}, on which the mesh has one rank", name(call.axes)));
      }
      if (call.rounds < 0 || call.rounds > kMostCallRounds) {
        fail(Defect::out_of_range, fmt::format("{} sequential messages: must be 0 to {}", call.rounds, kMostCallRounds));
      }
      if (call.wire_bytes < 0 || call.wire_bytes > kMostBytes - sum) {
        fail(Defect::bad_bytes, fmt::format("it sends {} bytes: must be at least 0, and at most {} with those before it",
                                            call.wire_bytes, kMostBytes));
      }
      sum += call.wire_bytes;
      if (!(call.begins_at >= begun && call.waited_at >= call.begins_at && std::isfinite(call.waited_at))) {
        fail(Defect::out_of_range,
             fmt::format("it begins after {} operations and is waited for after {}: must be in order, and not "
                         "before the previous call's begin at {}",
                         call.begins_at, call.waited_at, begun));
      }
      begun = call.begins_at;
    }
  }

  const Program& program_;
};

}  // namespace

void check_inner_calls(const Program& program) { InnerCallsCheck(program).run(); }

}  // namespace weft
