#include "actors/telemetry/log_line.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

StepRecord record() {
  StepRecord record;
  record.step = 3;
  record.steps = 10;
  record.loss = 2.5;
  record.tokens = 1000;
  record.seconds = 0.5;
  record.flops = 1e9;
  record.metrics[metric_index("resident_bytes")] = 0x3p29;
  return record;
}

TEST(LogLine, OfARunOnCores) {
  EXPECT_EQ(
      LogLine(8e9).format(record()),
      "step 3/10 | loss 2.5000 | gnorm 0.00 | lr 0.0e+00 | 2000 tok/s | 25.0% MFU | 500 ms | bubble 0.0% wait 0.0% data 0.0% | 1.5 GiB | "
      "skip 0 | eta 4s");
}

TEST(LogLine, TellsOfAGpusMemoryAndOfNoUtilisationThatIsNotKnown) {
  auto on_device = record();
  on_device.device_used = static_cast<std::uint64_t>(91.2 * 0x1p30);
  on_device.device_total = static_cast<std::uint64_t>(139.8 * 0x1p30);
  const auto line = LogLine(0).format(on_device);
  EXPECT_NE(line.find(" | 1.5 GiB | gpu 91.2 of 139.8 GiB | skip 0 | "), std::string::npos) << line;
  EXPECT_EQ(line.find("MFU"), std::string::npos) << line;
}

TEST(LogLine, TellsOfExchangesWhereThereAreSome) {
  auto exchanged = record();
  exchanged.metrics[metric_index("exchange_bytes")] = 0x1p20;
  EXPECT_NE(LogLine(0).format(exchanged).find(" wait 0.0% exchange 0.0% data 0.0% "), std::string::npos) << "all of it is hidden";
  exchanged.metrics[metric_index("exchange")] = 0.031;
  EXPECT_NE(LogLine(0).format(exchanged).find(" | bubble 0.0% wait 0.0% exchange 3.1% data 0.0% | 1.5 GiB | "), std::string::npos);
}

TEST(LogLine, TellsOfFurtherRoundsOfExchanges) {
  auto in_rounds = record();
  in_rounds.experts = {{1, "layers.1", {5, 3}, 0, 3}, {2, "layers.2", {4, 4}, 0, 4}};
  EXPECT_NE(LogLine(0).format(in_rounds).find(" | 1.5 GiB | 7 more rounds | skip 0 | "), std::string::npos);
}

}  // namespace
}  // namespace millrace::actors
