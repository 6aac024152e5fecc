#include "weft/program/verify/bytes_check.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "weft/program/defect.h"
#include "weft/program/verify/step_index.h"

namespace weft {
namespace {

/// Bytes of one kind, in list order: frees take effect after the instruction, as in step_cost().
struct Live {
  int64_t bytes = 0;
  int last = -1;  ///< latest instruction that changed it
};

class BytesCheck {
 public:
  BytesCheck(const Program& program, int rank)
      : program_(program), list_(program.of(rank)), rank_(rank), activations_(program.micro_batches) {}

  void run() {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) visit(i);
    for (const Live& live : activations_) check_end(live);
    check_end(partials_);
    check_end(other_);
  }

 private:
  void visit(int i) {
    const Instruction& x = list_[i];
    if (x.allocates == 0 && x.frees == 0) return;
    Live& live = x.op == Op::combine ? partials_ : x.micro >= 0 ? activations_[x.micro] : other_;
    const int64_t before = live.bytes;
    live.bytes += x.allocates - x.frees;
    live.last = i;
    if (live.bytes >= 0) return;
    fail(i, fmt::format("it frees {} bytes of {}, but only {} are live", x.frees, kind_of(x), before + x.allocates));
  }

  void check_end(const Live& live) const {
    if (live.bytes == 0) return;
    fail(live.last,
         fmt::format("{} bytes of {} are still live after it, and never freed", live.bytes, kind_of(list_[live.last])));
  }

  static std::string kind_of(const Instruction& x) {
    if (x.op == Op::combine) return "partial sums";
    return x.micro >= 0 ? fmt::format("the activations of micro-batch {}", x.micro) : "data outside micro-batches";
  }

  [[noreturn]] void fail(int i, const std::string& text) const { fail_at(program_, rank_, i, Defect::bad_bytes, text); }

  const Program& program_;
  const InstructionList& list_;
  int rank_;
  std::vector<Live> activations_;  // by micro-batch
  Live partials_, other_;
};

}  // namespace

void check_bytes(const Program& program, int rank) { BytesCheck(program, rank).run(); }

}  // namespace weft
