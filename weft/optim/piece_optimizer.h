// What optimizers have in common, and how each is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/optim/optimizer.h"
#include "weft/optim/update_pieces.h"

namespace weft {

/// An optimizer whose options are `Options` and whose state is UpdatePieces'.
template <class Options>
class PieceOptimizer : public Optimizer {
 public:
  /// Of `model`, which must outlive it; `pieces` is how an update goes through it, with all states of state_names().
  PieceOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules,
                 const PieceOptions& pieces = {.most = kPieceElements})
      : PieceOptimizer(model, options, rules, pieces, num_states(options)) {}
  /// The same, of which pieces have the first `states`.
  PieceOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules, const PieceOptions& pieces, int states)
      : options_(options), pieces_(model, states, rules, aged(options, pieces)) {}

  std::vector<at::Tensor>& state(int block) override { return pieces_.state(block); }
  std::vector<int64_t> state_numels(int block) const override {
    return std::vector<int64_t>(static_cast<size_t>(num_states(options_)), pieces_.model().flat(block).num_owned());
  }
  std::vector<int64_t>& ages() override { return pieces_.ages(); }
  std::vector<StateTensor> state_tensors(int param) const override {
    std::vector<StateTensor> tensors;
    for (const std::string& name : state_names(options_)) {
      const int index = static_cast<int>(tensors.size());
      tensors.push_back({name, pieces_.model().params()[param].shape, index, pieces_.own(param).begin});
    }
    return tensors;
  }

 protected:
  /// The weight decay of its parameters.
  double decay_of(const UpdatePiece& piece) const {
    return piece.weight_decay.value_or(piece.decay ? options_.weight_decay : 0.0);
  }
  /// The learning rate of its parameters.
  static double rate_of(const UpdatePiece& piece, const UpdateStep& step) { return step.lr * piece.lr_factor; }

  const Options options_;  ///< as they were checked
  UpdatePieces pieces_;    ///< what updates go through

 private:
  static PieceOptions aged(const Options& options, PieceOptions pieces) {
    pieces.ages = has_ages(options);
    return pieces;
  }
};

/// make_optimizer() of each kind.
std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options, const ParameterRules& rules);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options, const ParameterRules& rules);        ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options, const ParameterRules& rules);    ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options, const ParameterRules& rules);    ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Muon& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adafactor& options, const ParameterRules& rules);  ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const CustomOptimizer& options,
                                   const ParameterRules& rules);  ///< the same

}  // namespace weft
