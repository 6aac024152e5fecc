// Hardware files: parsing, and the one-line error for every kind of bad input.
#include "weft/recipe/toml/hardware_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr const char* kSmall = R"(
hardware = { name = "two boxes", ranks_per_host = 4 }
device = { flops = 1e12 }
intra_host = { bytes_per_s = 1e9 }
inter_host = { bytes_per_s = 1e8, latency_s = 1e-4 }
)";

std::string error_of(const std::string& text) {
  try {
    parse_hardware(text, "h.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string with(const std::string& more) { return kSmall + more; }

TEST(HardwareFile, what_a_device_leaves_out_costs_nothing) {
  const Hardware hardware = parse_hardware(kSmall, "h.toml");
  EXPECT_EQ(hardware.name, "two boxes");
  EXPECT_EQ(hardware.ranks_per_host, 4);
  EXPECT_EQ(hardware.flops, 1e12);
  EXPECT_EQ(hardware.narrow_flops, 1e12) << "as flops";
  EXPECT_EQ(hardware.kind, "") << "not said";
  EXPECT_EQ(hardware.efficiency, 1.0);
  EXPECT_EQ(hardware.memory_bytes_per_s, kFree);
  EXPECT_EQ(hardware.intra_host.latency_s, 0.0);
  EXPECT_EQ(hardware.inter_host.latency_s, 1e-4);
  EXPECT_TRUE(hardware.overlap);
  EXPECT_TRUE(hardware.blocks.empty());
  EXPECT_FALSE(hardware.loss_s.has_value());
  EXPECT_FALSE(hardware.host_launch_s.has_value());
}

TEST(HardwareFile, launches_are_a_gpus) {
  const auto error_with = [](const std::string& keys) {
    return error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1, " + keys + " }");
  };
  EXPECT_EQ(error_with("kind = 'cuda', host_launch_s = 1e-6"), "no error");
  for (const char* kind : {"", "kind = 'cpu', "}) {
    EXPECT_EQ(error_with(kind + std::string("host_launch_s = 1e-6")),
              "h.toml: hardware 'x': host_launch_s is for devices whose launches are counted: add kind = \"cuda\" to [device]");
  }
  for (const char* key : {"graph_launch_s", "host_wait_s"}) {
    EXPECT_EQ(error_with(std::string("kind = 'cuda', ") + key + " = 1e-6"),
              "h.toml: hardware 'x': graph_launch_s and host_wait_s need host_launch_s: add it to [device]");
  }
}

TEST(HardwareFile, links_that_are_left_out_are_not_known) {
  constexpr const char* kAlone = "hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1 }\n";
  for (const std::string& text : {std::string(kAlone), hardware_text(parse_hardware(kAlone, "h.toml"))}) {
    const Hardware alone = parse_hardware(text, "h.toml");
    EXPECT_FALSE(alone.intra_host.is_known || alone.inter_host.is_known || alone.offload.is_known);
  }
  const std::string free = std::string(kAlone) + "inter_host = { bytes_per_s = inf }";
  for (const std::string& text : {free, hardware_text(parse_hardware(free, "h.toml"))}) {
    const Hardware hardware = parse_hardware(text, "h.toml");
    EXPECT_FALSE(hardware.intra_host.is_known);
    EXPECT_TRUE(hardware.inter_host.is_known);
    EXPECT_EQ(hardware.inter_host.bytes_per_s, kFree);
  }
  EXPECT_EQ(error_of(std::string(kAlone) + "offload = { latency_s = 1 }"),
            "h.toml: offload.bytes_per_s is missing (one way, per rank; inf: free): a number of at least 1, or inf");
}

constexpr const char* kFull = R"(
hardware = { name = "a \"quoted\" name", ranks_per_host = 2, overlap = false }
intra_host = { latency_s = 1, bytes_per_s = 2 }
inter_host = { latency_s = 3, bytes_per_s = 4 }
offload = { latency_s = 5, bytes_per_s = 6 }
measured = { loss_s = 0.25, update_s_per_element = 1e-9 }
[device]
kind = "cuda"
flops = 10
narrow_flops = 20
efficiency = 0.125
memory_bytes = 30
memory_bytes_per_s = 40
launch_s = 0.5
host_launch_s = 5e-6
graph_launch_s = 8e-6
host_wait_s = 2e-5
[[block]]
name = "embedding"
forward_s = 0.0
[[block]]
name = "h.*"
forward_s = 1.5
backward_s = 2.5
input_s = 1
weight_s = 1.25
)";

void expect_full(const Hardware& h) {
  EXPECT_EQ(h.name, "a \"quoted\" name");
  EXPECT_EQ(h.ranks_per_host, 2);
  EXPECT_FALSE(h.overlap);
  EXPECT_EQ(h.kind, "cuda");
  EXPECT_EQ(h.flops, 10.0);
  EXPECT_EQ(h.narrow_flops, 20.0);
  EXPECT_EQ(h.efficiency, 0.125);
  EXPECT_EQ(h.memory_bytes, 30.0);
  EXPECT_EQ(h.memory_bytes_per_s, 40.0);
  EXPECT_EQ(h.launch_s, 0.5);
  EXPECT_EQ(h.host_launch_s, 5e-6);
  EXPECT_EQ(h.graph_launch_s, 8e-6);
  EXPECT_EQ(h.host_wait_s, 2e-5);
  EXPECT_EQ(h.intra_host.latency_s, 1.0);
  EXPECT_EQ(h.intra_host.bytes_per_s, 2.0);
  EXPECT_EQ(h.inter_host.latency_s, 3.0);
  EXPECT_EQ(h.inter_host.bytes_per_s, 4.0);
  EXPECT_EQ(h.offload.latency_s, 5.0);
  EXPECT_EQ(h.offload.bytes_per_s, 6.0);
  EXPECT_EQ(h.loss_s, 0.25);
  EXPECT_EQ(h.update_s_per_element, 1e-9);
  ASSERT_EQ(h.blocks.size(), 2u);
  EXPECT_EQ(h.blocks[0].name, "embedding");
  EXPECT_EQ(h.blocks[0].forward_s, 0.0);
  EXPECT_FALSE(h.blocks[0].backward_s.has_value());
  EXPECT_EQ(h.blocks[1].name, "h.*");
  EXPECT_EQ(h.blocks[1].forward_s, 1.5);
  EXPECT_EQ(h.blocks[1].backward_s, 2.5);
  EXPECT_EQ(h.blocks[1].input_s, 1.0);
  EXPECT_EQ(h.blocks[1].weight_s, 1.25);
}

TEST(HardwareFile, every_key_reaches_its_place) { expect_full(parse_hardware(kFull, "h.toml")); }

TEST(HardwareFile, what_is_written_reads_the_same) {
  expect_full(parse_hardware(hardware_text(parse_hardware(kFull, "h.toml")), "again.toml"));
  const Hardware small = parse_hardware(hardware_text(parse_hardware(kSmall, "h.toml")), "again.toml");
  EXPECT_EQ(small.memory_bytes_per_s, kFree);
  EXPECT_EQ(small.flops, 1e12);
  EXPECT_FALSE(small.loss_s.has_value());
}

TEST(HardwareFile, what_is_written_is_in_the_order_of_the_documentation) {
  Hardware hardware = parse_hardware(kSmall, "h.toml");
  hardware.loss_s = 0.001969;
  hardware.blocks = {{.name = "h.0", .forward_s = 0.5, .backward_s = 1.0}};
  const std::string text = hardware_text(hardware);
  std::vector<size_t> places;
  for (const char* part :
       {"[hardware]\nname = ", "\nranks_per_host = ", "\n\n[device]\nflops = ", "\n\n[measured]\nloss_s = 0.001969\n",
        "\n\n[intra_host]\nlatency_s = ", "\n\n[[block]]\nname = \"h.0\"\nforward_s = 0.5\nbackward_s = 1\n"}) {
    places.push_back(text.find(part));
    EXPECT_NE(places.back(), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << text;
}

TEST(HardwareFile, errors_tell_where_and_what) {
  EXPECT_EQ(error_of(with("devise = { flops = 1 }")), "h.toml:6:1: unknown key 'devise'; did you mean 'device'?");
  EXPECT_EQ(error_of(with("offload = { byte_per_s = 1 }")),
            "h.toml:6:13: unknown key 'offload.byte_per_s'; did you mean 'offload.bytes_per_s'?");
  EXPECT_EQ(error_of(with("offload = { bytes_per_s = 0 }")),
            "h.toml:6:27: offload.bytes_per_s must be a number of at least 1, or inf, found 0");
  EXPECT_EQ(error_of(with("offload = 3")), "h.toml:6:1: offload must be a table (offload = { ... } or [offload]), found 3");
  EXPECT_EQ(error_of("device = { flops = 1 }"), "h.toml: hardware.name is missing (a description): a string");
  EXPECT_EQ(error_of("hardware = { name = 'x', ranks_per_host = 2.5 }"),
            "h.toml:1:43: hardware.ranks_per_host must be an integer of at least 1 and at most 1000000, found 2.5");
}

TEST(HardwareFile, RatesOfOperatorsAndCoresOfHosts) {
  constexpr const char* kRates = R"(
hardware = { name = "x", ranks_per_host = 2 }
device = { flops = 1e12, kind = "cpu" }
cores = { per_host = 3, thread_power = 0.5, network_share = 0.25 }
operators = { near_bytes = 7 }
[[operator]]
of = "product"
element_bytes = 2
start_s = 1
work_s = 2
byte_s = 3
far_byte_s = 4
extra_s = 5
[[operator]]
of = "other"
)";
  for (const std::string& text : {std::string(kRates), hardware_text(parse_hardware(kRates, "h.toml"))}) {
    const Hardware h = parse_hardware(text, "h.toml");
    EXPECT_EQ(h.cores.per_host, 3);
    EXPECT_EQ(h.cores.thread_power, 0.5);
    EXPECT_EQ(h.cores.network_share, 0.25);
    const OperatorRates& rates = h.operators.value().rates;
    EXPECT_EQ(rates.near_bytes, 7.0);
    ASSERT_EQ(rates.of.size(), 2u);
    const OperatorRate& rate = rates.of[0];
    EXPECT_EQ(rate.of, "product");
    EXPECT_EQ(rate.element_bytes, 2);
    EXPECT_EQ((std::vector{rate.start_s, rate.work_s, rate.byte_s, rate.far_byte_s, rate.extra_s}),
              (std::vector{1.0, 2.0, 3.0, 4.0, 5.0}));
    EXPECT_EQ(rates.of[1].element_bytes, 4);
  }
  EXPECT_EQ(error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1 }\n[[operator]]\nof = 'other'"),
            "h.toml: hardware 'x': rates of operators are of one kind of device: add kind to [device]");
  EXPECT_EQ(error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1 }\noperators = { near_bytes = 7 }"),
            "h.toml: operators.near_bytes belongs to [[operator]], and there is none: remove it");
  EXPECT_EQ(error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1, kind = 'cuda' }\n"
                     "products = { processors = 1, efficiency = 1 }\nattention = { forward = 1, backward = 1 }\n"
                     "memory_bound = { efficiency = 1 }\n[[operator]]\nof = 'other'"),
            "h.toml: [[operator]] stands in place of [products], [attention] and [memory_bound]: remove one");
}

constexpr const char* kCosts = R"(
hardware = { name = "x", ranks_per_host = 1 }
device = { flops = 1e12, kind = "cuda" }
[products]
processors = 2
efficiency = 0.03
sustained = 0.04
tile_128x128 = 0.05
tile_128x64 = 0.06
tile_64x64 = 0.07
fill = 8
whole_waves = 0.09
exposed_writes = 0.1
unaligned = 11
split_s = 12
start_s = 13
[attention]
forward = 0.14
backward = 0.15
width_64 = 0.16
narrow = 0.17
half_length = 18
tail = 19
start_s = 20
[memory_bound]
efficiency = 0.21
start_s = 22
[collectives]
start_s = 23
all_reduce_start_s = 24
half_rate_bytes = 25
half_rate_power = 0.26
hop_s = 27
taken_from_compute = 0.28
)";

TEST(HardwareFile, costs_of_operators_and_collectives_reach_their_places) {
  for (const bool again : {false, true}) {
    const Hardware first = parse_hardware(kCosts, "h.toml");
    const Hardware hardware = again ? parse_hardware(hardware_text(first), "again.toml") : first;
    ASSERT_TRUE(hardware.operators && hardware.collectives);
    const auto& [products, attention, memory_bound, rates] = *hardware.operators;
    EXPECT_TRUE(rates.of.empty());
    const CollectiveCosts& rings = *hardware.collectives;
    EXPECT_EQ((std::vector<double>{products.processors, products.efficiency, products.sustained, products.tile_128x128,
                                   products.tile_128x64, products.tile_64x64, products.fill, products.whole_waves,
                                   products.exposed_writes, products.unaligned, products.split_s, products.start_s}),
              (std::vector<double>{2, 0.03, 0.04, 0.05, 0.06, 0.07, 8, 0.09, 0.1, 11, 12, 13}));
    EXPECT_EQ((std::vector<double>{attention.forward, attention.backward, attention.width_64, attention.narrow,
                                   attention.half_length, attention.tail, attention.start_s}),
              (std::vector<double>{0.14, 0.15, 0.16, 0.17, 18, 19, 20}));
    EXPECT_EQ(memory_bound.efficiency, 0.21);
    EXPECT_EQ(memory_bound.start_s, 22.0);
    EXPECT_EQ((std::vector<double>{rings.start_s, rings.all_reduce_start_s, rings.half_rate_bytes, rings.half_rate_power,
                                   rings.hop_s, rings.taken_from_compute}),
              (std::vector<double>{23, 24, 25, 0.26, 27, 0.28}));
  }
}

TEST(HardwareFile, other_softwares_costs_reach_their_places) {
  const std::string numbers =
      "attention_rate = 1.5\nnorm_bytes = 2\nnorm_backward_bytes = 3\nactivation_bytes = 4\nactivation_backward_bytes = 5\n"
      "rotary_bytes = 6\nloss_bytes = 7\ntraffic_factor = 8\nupdate_bytes = 9\naccumulate_bytes = 10\nblock_launch_s = 11\n"
      "block_s = 12\nrepeated_products = 0.13\nrepeated_attention = 0.14\nrepeated_memory_bound = 0.15\nrepeated_calls = 0.16\n"
      "gathered_again = 0.17\nhidden_tensor = 0.18\nexposed_messages = 0.19\ncalls_per_block = 20\ngradient_traffic = 21\n"
      "hidden_gathers = 0.22\nstep_s = 23\n";
  const std::string switches =
      "fused_attention = false\nfused_softmax = false\nsplit_messages = true\noverlapped_gradients = false\n";
  const Hardware first = parse_hardware(kCosts + ("[software]\nname = 'y'\n" + switches + numbers), "h.toml");
  for (const Hardware& hardware : {first, parse_hardware(hardware_text(first), "again.toml")}) {
    ASSERT_TRUE(hardware.software);
    SoftwareCosts costs = *hardware.software;
    EXPECT_FALSE(costs.fused_attention || costs.fused_softmax || costs.overlapped_gradients);
    EXPECT_TRUE(costs.split_messages);
    std::string values;
    for (const CostKey& key : cost_keys(costs)) values += fmt::format("{} = {}\n", key.name, *key.value);
    EXPECT_EQ(values, numbers);
    EXPECT_EQ(costs.step_s, 23.0);
  }
}

TEST(HardwareFile, a_file_may_have_no_costs_of_operators) {
  const Hardware hardware = parse_hardware(kSmall, "h.toml");
  EXPECT_FALSE(hardware.operators || hardware.collectives);
  const std::string text = hardware_text(hardware);
  for (const char* section : {"products", "attention", "memory_bound", "collectives"}) {
    EXPECT_EQ(text.find(section), std::string::npos) << section;
  }
}

TEST(HardwareFile, costs_of_operators_go_together) {
  const std::string device = "hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1, kind = 'cuda' }\n";
  const std::string products = "products = { processors = 1, efficiency = 0.5 }\n";
  const std::string attention = "attention = { forward = 0.5, backward = 0.5 }\n",
                    memory = "memory_bound = { efficiency = 1 }\n";
  EXPECT_EQ(error_of(device + products + attention + memory), "no error");
  EXPECT_EQ(error_of(device + products + memory),
            "h.toml: [attention] is missing: [products], [attention] and [memory_bound] go together");
  EXPECT_EQ(
      error_of(device + "products = { processors = 1 }\n" + attention + memory),
      "h.toml: products.efficiency is missing (share of the peak of a long sum in tiles of 256 x 128): a number above 0 and "
      "at most 1");
  EXPECT_EQ(error_of(device + "products = { processors = 0, efficiency = 0.5 }\n" + attention + memory),
            "h.toml:3:27: products.processors must be a number of at least 1 and at most 1000000, found 0");
  EXPECT_EQ(error_of(device + "collectives = { start_s = 1, all_reduce_start_s = 1, hop_s = 1, taken_from_compute = 2 }"),
            "h.toml:3:86: collectives.taken_from_compute must be a number of at least 0 and at most 1, found 2");
  EXPECT_EQ(
      error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1 }\n" + products + attention + memory),
      "h.toml: hardware 'x': costs of operators are for devices whose launches are counted: add kind = \"cuda\" to [device]");
}

TEST(HardwareFile, devices_are_of_a_known_kind) {
  for (const std::string kind : {"cpu", "cuda"}) {
    const Hardware h = parse_hardware(
        "hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1, kind = '" + kind + "' }", "h.toml");
    EXPECT_EQ(h.kind, kind);
    EXPECT_EQ(parse_hardware(hardware_text(h), "h.toml").kind, kind);
  }
  for (const std::string kind : {"tpu", ""}) {
    EXPECT_EQ(error_of("hardware = { name = 'x', ranks_per_host = 1 }\ndevice = { flops = 1, kind = '" + kind + "' }"),
              "h.toml:2:30: device.kind must be one of \"cpu\", \"cuda\", found '" + kind + "'");
  }
}

TEST(HardwareFile, sizes_and_rates_have_limits) {
  const char* rest =
      "\nintra_host = { bytes_per_s = inf }\ninter_host = { bytes_per_s = inf }\nhardware = { name = 'x', ranks_per_host = 1 }";
  EXPECT_EQ(error_of(std::string("device = { flops = 1e20 }") + rest),
            "h.toml:1:20: device.flops must be a number of at least 1 and at most 1e+18, or inf, found 1e+20");
  EXPECT_EQ(error_of(std::string("device = { flops = 1e-3 }") + rest),
            "h.toml:1:20: device.flops must be a number of at least 1, or inf, found 0.001");
  EXPECT_EQ(error_of(std::string("device = { flops = -inf }") + rest),
            "h.toml:1:20: device.flops must be a number of at least 1, or inf, found -inf");
  EXPECT_EQ(error_of(std::string("device = { flops = 1, memory_bytes = 1e19 }") + rest),
            "h.toml:1:38: device.memory_bytes must be a number of at least 1 and at most 1e+18, or inf, found 1e+19");
  EXPECT_EQ(error_of(std::string("device = { flops = inf, memory_bytes = 1e18 }") + rest), "no error");
}

TEST(HardwareFile, errors_in_blocks_too) {
  EXPECT_EQ(error_of(with("[[block]]\nforward_s = 1")),
            "h.toml:6:1: block.name is missing (name of a block; a trailing * matches any rest): a string");
  EXPECT_EQ(error_of(with("[[block]]\nname = 'h.0'\nforwards = 1")),
            "h.toml:8:1: unknown key 'block.forwards'; did you mean 'block.forward_s'?");
  EXPECT_EQ(error_of(with("[[block]]\nname = 'h.0'\nforward_s = -1")),
            "h.toml:8:13: block.forward_s must be a number of at least 0, found -1");
  EXPECT_EQ(error_of(with("[[blocks]]\nname = 'h.0'")), "h.toml:6:3: unknown key 'blocks'; did you mean 'block'?");
  EXPECT_EQ(error_of(with("block = { name = 'h.0' }")),
            "h.toml:6:1: block is a list: write [[block]] above each, found a table ({ name = 'h.0' })");
}

TEST(HardwareFile, a_file_that_is_not_there) {
  try {
    load_hardware("/nowhere/h.toml");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "cannot read the hardware file '/nowhere/h.toml': No such file or directory");
  }
}

TEST(HardwareFile, those_that_come_with_weft_can_be_read) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE "/hardware")) {
    const Hardware hardware = load_hardware(entry.path());
    EXPECT_LE(hardware.inter_host.bytes_per_s, hardware.intra_host.bytes_per_s) << entry.path();
    EXPECT_LT(hardware.efficiency, 1.0) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

}  // namespace
}  // namespace weft
