// The kinds of torch/nn/modules/rnn.h, embedding.h, transformer*.h, and MultiheadAttention.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformer.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

constexpr const char* kSparse = "the gradient of parameter 'kind.weight' is sparse, weft's are dense";
constexpr const char* kChanged = "the forward of block 'kind' changed its parameter 'kind.weight' in place";

/// [layers, batch, width] has its samples second.
at::Tensor by_sample(const at::Tensor& state) { return state.transpose(0, 1); }

/// Takes a sequence and a first state, made by a layer before it; passes on the last state too.
template <class Holder, class Options>
Kind recurrent(std::string name, std::vector<int64_t> state, const Options& options) {
  return {.name = std::move(name), .takes = {{3, 4}, std::move(state)}, .make = [options] {
            Holder module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          auto [output, last] = module->forward(inputs[0], by_sample(inputs[1]).contiguous());
                          return {output, by_sample(last)};
                        }};
          }};
}

Kind long_short(std::vector<int64_t> hidden, std::vector<int64_t> cell, const nn::LSTMOptions& options) {
  return {.name = "LSTM", .takes = {{3, 4}, std::move(hidden), std::move(cell)}, .make = [options] {
            nn::LSTM module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          const auto first =
                              std::make_tuple(by_sample(inputs[1]).contiguous(), by_sample(inputs[2]).contiguous());
                          const auto [output, last] = module->forward(inputs[0], first);
                          return {output, by_sample(std::get<0>(last)), by_sample(std::get<1>(last))};
                        }};
          }};
}

template <class Holder>
Kind cell(std::string name) {
  return {.name = std::move(name), .takes = {{4}, {3}}, .make = [] {
            Holder module(4, 3);
            return Part{module.ptr(),
                        [module](const Tensors& inputs) mutable -> Tensors { return {module->forward(inputs[0], inputs[1])}; }};
          }};
}

Part long_short_cell() {
  nn::LSTMCell module(4, 3);
  return {module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
            const auto [hidden, cell] = module->forward(inputs[0], std::make_tuple(inputs[1], inputs[2]));
            return {hidden, cell};
          }};
}

/// Takes ids.
template <class Holder, class Options>
Kind lookup(std::string name, const Options& options) {
  return {.name = std::move(name), .takes = {{2}}, .make = [options] {
            Holder module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          return {module->forward(inputs.back()), inputs[0]};
                        }};
          }};
}

/// Attention has its tokens first.
at::Tensor tokens_first(const at::Tensor& x) { return x.transpose(0, 1); }

Kind attention(const nn::MultiheadAttentionOptions& options) {
  return {.name = "MultiheadAttention", .takes = {{3, 4}, {2, 4}}, .make = [options] {
            nn::MultiheadAttention module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          const at::Tensor keys = tokens_first(inputs[1]);
                          const auto [output, shares] = module->forward(tokens_first(inputs[0]), keys, keys);
                          return {tokens_first(output).contiguous(), shares};
                        }};
          }};
}

nn::TransformerEncoderLayerOptions encoder() {
  return nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(6).dropout(0.0);
}
nn::TransformerDecoderLayerOptions decoder() {
  return nn::TransformerDecoderLayerOptions(4, 2).dim_feedforward(6).dropout(0.0);
}

template <class Holder, class Options>
Kind encoding(std::string name, const Options& options) {
  return {.name = std::move(name), .takes = {{3, 4}}, .make = [options] {
            Holder module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          return {tokens_first(module->forward(tokens_first(inputs[0])))};
                        }};
          }};
}

template <class Holder, class Options>
Kind decoding(std::string name, const Options& options) {
  return {.name = std::move(name), .takes = {{3, 4}, {2, 4}}, .make = [options] {
            Holder module(options);
            return Part{module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
                          return {tokens_first(module->forward(tokens_first(inputs[0]), tokens_first(inputs[1])))};
                        }};
          }};
}

nn::TransformerOptions transformer(double dropout) {
  return nn::TransformerOptions(4, 2, 1, 1).dim_feedforward(6).dropout(dropout);
}

nn::EmbeddingOptions embedding() { return nn::EmbeddingOptions(8, 3); }
nn::EmbeddingBagOptions bag() { return nn::EmbeddingBagOptions(8, 3); }

}  // namespace

std::vector<Kind> sequence_kinds() {
  return {
      recurrent<nn::RNN>("RNN", {1, 3}, nn::RNNOptions(4, 3).batch_first(true)),
      with("relu",
           recurrent<nn::RNN>("RNN", {2, 3}, nn::RNNOptions(4, 3).batch_first(true).num_layers(2).nonlinearity(torch::kReLU))),
      recurrent<nn::GRU>("GRU", {1, 3}, nn::GRUOptions(4, 3).batch_first(true)),
      with("both_ways",
           recurrent<nn::GRU>("GRU", {4, 3}, nn::GRUOptions(4, 3).batch_first(true).num_layers(2).bidirectional(true))),
      with("dropout",
           random(recurrent<nn::GRU>("GRU", {2, 3}, nn::GRUOptions(4, 3).batch_first(true).num_layers(2).dropout(0.5)))),
      long_short({1, 3}, {1, 3}, nn::LSTMOptions(4, 3).batch_first(true)),
      with("projected", long_short({2, 2}, {2, 3}, nn::LSTMOptions(4, 3).batch_first(true).bidirectional(true).proj_size(2))),
      cell<nn::RNNCell>("RNNCell"),
      cell<nn::GRUCell>("GRUCell"),
      {.name = "LSTMCell", .takes = {{4}, {3}, {3}}, .make = long_short_cell},
      lookup<nn::Embedding>("Embedding", embedding()),
      with("padding_idx", lookup<nn::Embedding>("Embedding", embedding().padding_idx(1))),
      with("by_frequency", lookup<nn::Embedding>("Embedding", embedding().scale_grad_by_freq(true))),
      with("sparse", refused(kSparse, lookup<nn::Embedding>("Embedding", embedding().sparse(true)))),
      with("max_norm", refused(kChanged, lookup<nn::Embedding>("Embedding", embedding().max_norm(0.25)))),
      lookup<nn::EmbeddingBag>("EmbeddingBag", bag()),
      with("sum", lookup<nn::EmbeddingBag>("EmbeddingBag", bag().mode(torch::kSum))),
      with("max", lookup<nn::EmbeddingBag>("EmbeddingBag", bag().mode(torch::kMax))),
      with("sparse", refused(kSparse, lookup<nn::EmbeddingBag>("EmbeddingBag", bag().mode(torch::kSum).sparse(true)))),
      with("max_norm", refused(kChanged, lookup<nn::EmbeddingBag>("EmbeddingBag", bag().max_norm(0.25)))),
      attention(nn::MultiheadAttentionOptions(4, 2)),
      with("added", attention(nn::MultiheadAttentionOptions(4, 2).add_bias_kv(true).add_zero_attn(true))),
      encoding<nn::TransformerEncoderLayer>("TransformerEncoderLayer", encoder()),
      with("dropout", random(encoding<nn::TransformerEncoderLayer>("TransformerEncoderLayer", encoder().dropout(0.5)))),
      decoding<nn::TransformerDecoderLayer>("TransformerDecoderLayer", decoder()),
      encoding<nn::TransformerEncoder>("TransformerEncoder", nn::TransformerEncoderOptions(encoder(), 2)),
      decoding<nn::TransformerDecoder>("TransformerDecoder", nn::TransformerDecoderOptions(decoder(), 2)),
      decoding<nn::Transformer>("Transformer", transformer(0.0)),
      with("dropout", random(decoding<nn::Transformer>("Transformer", transformer(0.5)))),
  };
}

}  // namespace weft::module_kinds
