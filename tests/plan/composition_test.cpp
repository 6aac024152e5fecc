#include "weft/plan/layout/composition.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"

namespace weft::composition_test {
namespace {

struct Case {
  const char* name;
  CompositionFacts facts;
  std::string says;
};

TEST(Composition, InvalidCombinationsAreRefusedWithAdvice) {
  const CompositionFacts gpt{.model = "gpt", .has_splits = true, .has_sequences = true, .tokens = 64};
  const auto with = [](CompositionFacts facts, int cp, int tp, bool sequence_parallel = false) {
    facts.cp = cp;
    facts.tp = tp;
    facts.sequence_parallel = sequence_parallel;
    return facts;
  };
  CompositionFacts plain{.model = "mine"}, odd = gpt, normed = gpt;
  odd.tokens = 36;
  CompositionFacts layer_wise = plain;
  layer_wise.tensor_norms = layer_wise.offloads = true;
  CompositionFacts noisy = gpt;
  noisy.noise_scale = true;
  normed.has_statistics = true;
  const auto synchronised = [&](const std::function<void(CompositionFacts&)>& change) {
    CompositionFacts facts{.model = "net", .has_splits = true, .has_statistics = true, .sync = SyncBatchNorm::all};
    change(facts);
    return facts;
  };
  const auto working = [&](const std::function<void(CompositionFacts&)>& change) {
    CompositionFacts facts = gpt;
    facts.master = true;
    change(facts);
    return facts;
  };
  const std::string others =
      "layout.style = \"master\" takes all ranks; leave out layout.dp, layout.shard, layout.cp and layout.tp";
  const std::string offloads =
      "layout.style = \"master\" offloads nothing; use \"none\" for layout.offload_optimizer, layout.offload_parameters and "
      "layout.offload_activations";
  const auto whole_tensors = [](const std::function<void(CompositionFacts&)>& change) {
    CompositionFacts facts{.model = "net", .has_splits = true, .whole_tensors = true};
    change(facts);
    return facts;
  };
  const Case cases[] = {
      {"a master", working([](CompositionFacts& f) { f.reproducible = f.narrow = f.tensor_norms = true; }), ""},
      {"a master and replicas", working([](CompositionFacts& f) { f.data_ranks = 2; }), others},
      {"a master and tp", working([](CompositionFacts& f) { f.tp = 2; }), others},
      {"a master and cp", working([](CompositionFacts& f) { f.cp = 2; }), others},
      {"a master of shards", working([](CompositionFacts& f) { f.shards = true; }),
       "layout.style = \"master\": one rank has all of the state; use layout.shard_level = \"none\""},
      {"a master that offloads", working([](CompositionFacts& f) { f.offloads = true; }), offloads},
      {"a master that offloads inputs", working([](CompositionFacts& f) { f.offloads_activations = true; }), offloads},
      {"a master and fp16", working([](CompositionFacts& f) { f.scales_losses = true; }),
       "layout.style = \"master\" with layout.precision = \"fp16\": only the master would know the loss scale; use \"bf16\""},
      {"a master and samples together", working([](CompositionFacts& f) { f.sync = SyncBatchNorm::all; }),
       "layout.style = \"master\" with layout.sync_batch_norm = \"all\": its ranks do not meet inside blocks; leave one of "
       "them "
       "out"},
      {"a master and the noise scale", working([](CompositionFacts& f) { f.noise_scale = true; }),
       "layout.style = \"master\" with run.noise_scale: only the master has norms of gradients; leave one of them out"},
      {"a master and parts of layers", working([](CompositionFacts& f) { f.reproducible_tp = 2; }),
       "layout.style = \"master\" with run.reproducible_tp, which divides layers; leave one of them out"},
      {"a master and losses in chunks", working([](CompositionFacts& f) { f.loss_chunk = 8; }),
       "layout.style = \"master\" with layout.loss_chunk: the master makes the losses, from whole logits; leave one of them "
       "out"},
      {"losses in chunks", {.model = "gpt", .loss_chunk = 8, .chunks_loss = true}, ""},
      {"losses in odd chunks",
       {.model = "gpt", .has_splits = true, .reproducible_tp = 2, .loss_chunk = 8, .chunks_loss = true},
       "layout.loss_chunk = 8 with run.reproducible_tp, whose products are of whole vectors; use a multiple of 32"},
      {"losses in chunks of samples together", synchronised([](CompositionFacts& f) {
         f.loss_chunk = 8;
         f.chunks_loss = true;
       }),
       ""},
      {"losses in chunks of samples in pieces", synchronised([](CompositionFacts& f) {
         f.loss_chunk = 8;
         f.chunks_loss = f.reproducible = true;
       }),
       "layout.loss_chunk = 8 with layout.sync_batch_norm and run.reproducible_slots, which sum losses in pieces of a "
       "micro-batch; leave one of them out"},
      {"losses in chunks elsewhere",
       {.model = "mine", .loss_chunk = 8},
       "layout.loss_chunk = 8: model 'mine' makes its logits whole; use 0, or gpt, llama, or in C++ a last block with "
       "Block::can_chunk_loss() and the loss and hits of vocabulary_cross_entropy() and vocabulary_hits()"},
      {"all together", with(gpt, 4, 4, true), ""},
      {"nothing asked of a plain model", with(plain, 1, 1, true), ""},
      {"tokens that are not known", with({.model = "mine", .has_splits = true, .has_sequences = true}, 3, 5, true), ""},
      {"no split table", with(plain, 1, 2),
       "layout.tp = 2: model 'mine' has no layers that ranks share; use tp = 1, or a gpt, llama or exported model, or "
       "Model::splits of a model in C++"},
      {"no patterns", with({.model = "exported"}, 1, 2),
       "layout.tp = 2: model 'exported' has no layers that ranks share; use tp = 1, or name layers in model.tp_columns, "
       "tp_rows and tp_vocabulary (docs/exported.md)"},
      {"no sequences", with(plain, 2, 1),
       "layout.cp = 2: model 'mine' does not read sequences that ranks can share; use cp = 1"},
      {"statistics", with(normed, 2, 1),
       "layout.cp = 2: model 'gpt' has running statistics, which need whole samples; use cp = 1"},
      {"chunks", with(odd, 4, 1),
       "layout.cp = 4: 36 tokens per sample do not divide into the 8 equal chunks of a zig-zag cut; use 32 or 40"},
      {"tokens over tp", with(odd, 1, 8, true),
       "layout.sequence_parallel: 36 tokens per sample do not divide over layout.tp = 8; use 32 or 40"},
      {"tokens over both", with(odd, 2, 4, true),
       "layout.sequence_parallel: 36 tokens per sample do not divide over layout.tp = 4 x layout.cp = 2; use 32 or 48"},
      {"noise of replicas", with(noisy, 1, 2), ""},
      {"noise of parts of samples", with(noisy, 2, 1),
       "run.noise_scale with layout.cp = 2: no rank has the gradients of whole samples; use cp = 1, or leave it out"},
      {"noise of samples together", synchronised([](CompositionFacts& f) { f.noise_scale = true; }),
       "run.noise_scale with layout.sync_batch_norm = \"all\": ranks' gradients depend on one another's samples, so "
       "they are not of small batches; leave one of them out"},
      {"samples together", synchronised([](CompositionFacts& f) { f.reproducible = true; }), ""},
      {"nothing to normalise", synchronised([](CompositionFacts& f) { f.has_statistics = false; }),
       "layout.sync_batch_norm = \"all\": model 'net' has no BatchNorm; leave it out"},
      {"statistics apart", synchronised([](CompositionFacts& f) { f.apart = "bn"; }),
       "layout.sync_batch_norm = \"all\": block 'bn' of model 'net' normalises each rank's samples alone; leave it out, or "
       "use cnn, resnet, or weft's BatchNorm2d with Block::can_join_batches() in C++"},
      {"slots over one axis", synchronised([](CompositionFacts& f) {
         f.reproducible = true;
         f.sync = SyncBatchNorm::dp;
       }),
       "layout.sync_batch_norm = \"dp\" with run.reproducible_slots: which samples are normalised together would depend on "
       "the mesh; use \"all\""},
      {"slots of narrow numbers", synchronised([](CompositionFacts& f) { f.reproducible = f.narrow = true; }),
       "layout.sync_batch_norm with run.reproducible_slots: narrower types round differently in sums over several slots; "
       "use layout.precision = \"fp32\""},
      {"slots of split layers", synchronised([](CompositionFacts& f) {
         f.reproducible = true;
         f.tp = 2;
       }),
       "layout.tp = 2 with layout.sync_batch_norm and run.reproducible_slots, whose sums over samples need whole layers; "
       "use tp = 1, or leave one of the others out"},
      {"slots of other blocks", synchronised([](CompositionFacts& f) {
         f.reproducible = true;
         f.whole = "mine";
       }),
       "layout.sync_batch_norm with run.reproducible_slots: block 'mine' of model 'net' does not make its sums over samples in "
       "pieces (Block::can_join_batches); leave one of them out"},
      {"norms of offloaded state", layer_wise,
       "optimizer.name = \"lars\", \"lamb\" or \"adafactor\" looks at all weights before it updates the first; use "
       "layout.offload_optimizer = \"none\" and layout.offload_parameters = \"none\", or another optimizer"},
      {"updates of split layers", whole_tensors([](CompositionFacts& f) { f.tp = 2; }),
       "optimizer.name = \"muon\" or \"adafactor\" works on whole tensors, but layout.tp = 2 divides them; use "
       "shard, dp, pp or cp, or another optimizer"},
      {"updates of layers in parts", whole_tensors([](CompositionFacts& f) { f.reproducible_tp = 4; }),
       "optimizer.name = \"muon\" or \"adafactor\" works on whole tensors, but run.reproducible_tp = 4 divides them; "
       "use shard, dp, pp or cp, or another optimizer"},
  };
  for (const Case& c : cases) EXPECT_EQ(test::refusal([&] { check_composition(c.facts); }), c.says) << c.name;
}

TEST(Composition, FactsAreOfTheModel) {
  const CompositionFacts gpt_facts =
      facts_of(gpt({.heads = 2, .width = 8}), {.sequence_parallel = true}, {.cp = 2, .tp = 4}, 8);
  EXPECT_TRUE(gpt_facts.has_splits && gpt_facts.has_sequences && !gpt_facts.has_statistics && gpt_facts.sequence_parallel);
  EXPECT_EQ(gpt_facts.cp * 10 + gpt_facts.tp, 24);
  const CompositionFacts cnn_facts = facts_of(cnn({.size = 12, .width = 4}), {}, {}, 0);
  EXPECT_TRUE(cnn_facts.has_statistics && !cnn_facts.has_sequences);
}

}  // namespace
}  // namespace weft::composition_test
