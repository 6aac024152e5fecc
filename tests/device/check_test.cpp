// weft check on the checked device: nothing fails, layouts have the bits of one device, and memory is measured there.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/train/check/check_machine.h"

namespace weft::device_check_test {
namespace {

class DeviceCheck : public testing::TestWithParam<int> {};

TEST_P(DeviceCheck, HoldsOnAllDevices) {
  on_device({});
  said_of_device();
  std::map<std::string, CheckLine> lines;
  test::run_ranks(GetParam(),
                  [&](World world) {
                    for (const CheckLine& line : check_machine(world, {.device = "auto"})) lines[line.name] = line;
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
  if (GetParam() == 1) return;
  for (const char* name : {"device copies", "collectives nccl", "device links", "layout mixture"}) {
    EXPECT_EQ(lines[name].verdict, CheckVerdict::ok) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCheck, testing::Values(1, 2, 4));

}  // namespace
}  // namespace weft::device_check_test
