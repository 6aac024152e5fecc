// Ring attention: forward, and a backward in which the gradients of keys and values travel behind them.
//
// In the zig-zag cut a rank's own tokens are an early chunk and a late one. Of an earlier rank's keys, both chunks see the
// early chunk and neither sees the late one. Of a later rank's keys, the late chunk sees all and the early chunk none.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/attention/call.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/attention/partial.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `count` tokens starting at `first`.
struct Span {
  int64_t first;
  int64_t count;
  at::Tensor of(const at::Tensor& x) const { return x.narrow(2, first, count); }  ///< x [batch, heads, tokens, ...]
};

/// The part of (own queries) x (keys of `origin`) that is not fully masked.
struct RingPiece {
  Span queries;
  Span keys;
  AttentionMask mask;
};

RingPiece piece_of(int rank, int origin, int64_t tokens) {
  const Span all{0, tokens}, early{0, tokens / 2}, late{tokens / 2, tokens / 2};
  if (origin == rank) return {all, all, AttentionMask::causal};
  return origin < rank ? RingPiece{all, early, AttentionMask::none} : RingPiece{late, all, AttentionMask::none};
}

/// A tensor in flight to the next rank, and the one arriving from the previous rank.
struct Passing {
  at::Tensor outgoing, incoming;
  Work sent, received;

  /// Waits for the arriving tensor and frees the sent one.
  at::Tensor wait() {
    received.wait();
    sent.wait();
    outgoing.reset();
    return std::move(incoming);
  }
};

/// Every second rank receives first: if both directions share a queue, as in NCCL between two ranks, one side must.
Passing pass_on(const Group& ring, const at::Tensor& tensor, const std::string& what) {
  const int next = (ring.rank() + 1) % ring.size(), previous = (ring.rank() + ring.size() - 1) % ring.size();
  Passing passing{tensor, at::empty_like(tensor), {}, {}};
  if (ring.rank() % 2 == 0) passing.sent = ring.send(passing.outgoing, next, what);
  passing.received = ring.receive(passing.incoming, previous, what);
  if (ring.rank() % 2 != 0) passing.sent = ring.send(passing.outgoing, next, what);
  return passing;
}

/// Keys and values [2, batch, kv heads, tokens, head width] that circulate: at step s, those of the rank s places before.
class KeyValueRing {
 public:
  KeyValueRing(const AttentionCall& call, const at::Tensor& k, const at::Tensor& v) : call_(call), k_(k), v_(v) {
    if (call.group.size() > 1) both_ = at::stack({k, v}).contiguous();
  }
  const at::Tensor& k() const { return k_; }
  const at::Tensor& v() const { return v_; }
  int step() const { return step_; }
  int steps() const { return call_.group.size(); }
  int origin() const { return (call_.group.rank() + steps() - step_) % steps(); }
  /// Starts to pass them on, unless all ranks have seen them.
  void start() {
    if (step_ + 1 < steps()) passing_ = pass_on(call_.group, both_, name("keys and values"));
  }
  /// Moves to the next keys and values.
  void advance() {
    if (++step_ == steps()) return;
    both_ = passing_.wait();
    k_ = both_[0];
    v_ = both_[1];
  }
  /// Name of a message: `layer 3: keys and values, step 1 of 3`.
  std::string name(std::string_view content) const {
    return fmt::format("{}: {}, step {} of {}", call_.what, content, step_ + 1, steps());
  }

 private:
  const AttentionCall& call_;
  at::Tensor k_, v_, both_;
  Passing passing_;
  int step_ = 0;
};

/// Gradients of keys and values, in the type that they are summed in: the sum for this rank's, and the travelling sums for
/// other ranks'. A sum starts one rank after its owner, so it is passed on as often as the keys and values.
class GradientRing {
 public:
  /// Adds the gradients of this step's piece, and passes the sum on.
  void add(const AttentionCall& call, const KeyValueRing& ring, const Span& keys, const AttentionGradients& piece,
           at::ScalarType wide) {
    if (ring.step() == 0) {
      own_ = at::stack({piece.k, piece.v}).to(wide).contiguous();
      return;
    }
    const at::Tensor sums = ring.step() == 1 ? at::zeros_like(own_) : passing_.wait();
    keys.of(sums[0]).add_(piece.k);
    keys.of(sums[1]).add_(piece.v);
    passing_ = pass_on(call.group, sums, ring.name("their gradients"));
  }
  /// Returns the total for this rank's keys and values, once every rank has added to it.
  at::Tensor finish() { return own_.add_(passing_.wait()); }

 private:
  at::Tensor own_;
  Passing passing_;
};

AttentionPiece forward_round(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const AttentionKernel kernel = attention_kernel(q);
  AttentionPiece whole;
  for (KeyValueRing ring(call, k, v); ring.step() < ring.steps(); ring.advance()) {
    ring.start();
    const auto [queries, keys, mask] = piece_of(call.group.rank(), ring.origin(), q.size(2));
    const AttentionPiece part = attend(queries.of(q), keys.of(ring.k()), keys.of(ring.v()), mask, kernel);
    if (ring.step() > 0) {
      join({queries.of(whole.out), queries.of(whole.logsumexp)}, part);
    } else {
      whole = {ring.steps() == 1 ? part.out : part.out.to(part.logsumexp.scalar_type()), part.logsumexp};
    }
  }
  return {whole.out.to(q.scalar_type()), whole.logsumexp};
}

AttentionGradients backward_round(const AttentionCall& call, const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const AttentionPiece& whole) {
  const AttentionKernel kernel = attention_kernel(q);
  if (call.group.size() == 1) return attend_backward(dout, q, k, v, whole, AttentionMask::causal, kernel);
  const at::ScalarType wide = whole.logsumexp.scalar_type();
  at::Tensor dq;
  GradientRing gradients;
  for (KeyValueRing ring(call, k, v); ring.step() < ring.steps(); ring.advance()) {
    ring.start();
    const auto [queries, keys, mask] = piece_of(call.group.rank(), ring.origin(), q.size(2));
    const AttentionGradients part = attend_backward(queries.of(dout), queries.of(q), keys.of(ring.k()), keys.of(ring.v()),
                                                    {queries.of(whole.out), queries.of(whole.logsumexp)}, mask, kernel);
    if (ring.step() > 0) {
      queries.of(dq).add_(part.q);
    } else {
      dq = part.q.to(wide);
    }
    gradients.add(call, ring, keys, part, wide);
  }
  const at::Tensor both = gradients.finish().to(q.scalar_type());
  return {dq.to(q.scalar_type()), both[0], both[1]};
}

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionCall& call) {
    const AttentionPiece whole = forward_round(call, q, k, v);
    ctx->saved_data["call"] = keep_call(call);
    ctx->save_for_backward({q, k, v, whole.out, whole.logsumexp});
    return whole.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const AttentionCall& call = kept_for_backward(ctx->saved_data["call"]);
    const variable_list saved = ctx->get_saved_variables();
    const AttentionGradients gradients = backward_round(call, grads[0], saved[0], saved[1], saved[2], {saved[3], saved[4]});
    return {gradients.q, gradients.k, gradients.v, {}};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                          std::string_view what) {
  const AttentionCall call{"ring attention", cp, std::string(what)};
  check(call, q, k, v);
  return RingAttention::apply(q, k, v, call);
}

}  // namespace weft
