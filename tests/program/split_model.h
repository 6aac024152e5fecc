// A toy model whose blocks call other ranks while they run, as with layers or sequences divided over ranks.
#pragma once

#include "tests/program/toy.h"

namespace weft {

/// Every block: 10 bytes along tp in 2 rounds and 3 along cp in 1 in forward, twice that in backward, of which backward_weight
/// sends 5 along tp. The loss: 1 along tp. Axes of one rank are left out.
inline ModelCost split_model(ModelCost model, int cp, int tp) {
  const auto calls = [&](std::vector<InnerCall> all) {
    std::erase_if(all, [&](const InnerCall& call) { return call.axes == kTensorAxis ? tp == 1 : cp == 1; });
    return all;
  };
  for (BlockCost& block : model.blocks) {
    block.calls.forward = calls({{kTensorAxis, 2, 10}, {kContextAxis, 1, 3}});
    block.calls.backward = calls({{kContextAxis, 2, 6}, {kTensorAxis, 4, 20}});
    block.calls.input = calls({{kContextAxis, 2, 6}, {kTensorAxis, 3, 15}});
    block.calls.weight = calls({{kTensorAxis, 1, 5}});
  }
  model.loss_calls = calls({{kTensorAxis, 2, 1}});
  return model;
}

}  // namespace weft
