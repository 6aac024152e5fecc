// weft check on the checked device: nothing fails, layouts have the bits of one device, and memory is measured there.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/train/check/check_machine.h"

namespace weft::device_check_test {
namespace {

struct Machine {
  int ranks = 1;
  const char* backend = "auto";
};
void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.backend << machine.ranks; }

class DeviceCheck : public testing::TestWithParam<Machine> {};

TEST_P(DeviceCheck, HoldsOnAllDevices) {
  on_device({});
  said_of_device();
  std::map<std::string, CheckLine> lines;
  const Machine& machine = GetParam();
  test::run_ranks(machine.ranks,
                  [&](World world) {
                    for (const CheckLine& line : check_machine(world, {.device = "auto", .backend = machine.backend}))
                      lines[line.name] = line;
                  },
                  {.timeout = std::chrono::minutes(2)});
  EXPECT_EQ(said_of_device(), "");
  for (const auto& [name, line] : lines) {
    if (name == "links") continue;  // slow where something else uses the machine
    EXPECT_NE(line.verdict, CheckVerdict::failed) << check_text(line);
    if (!name.starts_with("layout ")) continue;
    const bool splits = name == "layout tp" || name == "layout cp";
    EXPECT_TRUE(line.text.starts_with(splits ? "trains as one device does, within rounding ("
                                             : "trains as one device does, bit by bit; "))
        << check_text(line);
    EXPECT_NE(line.text.find(" MiB, forecast "), std::string::npos) << check_text(line);
  }
  for (const char* name : {"devices", "pinned memory", "layout bf16"}) EXPECT_EQ(lines[name].verdict, CheckVerdict::ok) << name;
  if (machine.ranks == 1) return;
  for (const char* name : {"device copies", "collectives shm", "collectives gloo", "device links", "layout mixture"}) {
    EXPECT_EQ(lines[name].verdict, CheckVerdict::ok) << name;
  }
  const bool by_engine = machine.backend == std::string("auto");
  EXPECT_EQ(lines[by_engine ? "collectives nccl" : "collectives auto"].verdict,
            by_engine ? CheckVerdict::ok : CheckVerdict::not_checked);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCheck, testing::Values(Machine{1}, Machine{2}, Machine{2, "shm"}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace weft::device_check_test
