#include "actors/telemetry/log_line.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

std::string first_line(const StepRecord& record, double peak_flops = 0) {
  LogLine line(peak_flops);
  line.add(record);
  return line.aligned();
}

/// The lines of several steps in a row.
std::vector<std::string> lines_of(const std::vector<StepRecord>& records) {
  LogLine line(0);
  std::vector<std::string> lines;
  for (const auto& record : records) {
    line.add(record);
    lines.push_back(line.aligned());
  }
  return lines;
}

void set(StepRecord& record, const char* metric, double value) {
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (step_metrics[i].name == metric) record.metrics.at(i) = value;
}

TEST(LogLine, OfARunOnCores) {
  auto busy = record();
  set(busy, "bubble", 0.317);
  set(busy, "wait", 0.132);
  EXPECT_EQ(first_line(busy, 8e9),
            "step 3/10  | loss 2.5000 | gnorm 0.00 | lr 0.0e+00 |   2000 tok/s | 25.0% MFU | 500 ms | bubble 31.7% wait 13.2% | eta 4s | "
            "1.5 GiB");
}

TEST(LogLine, CountsTokensAndEpochs) {
  auto read = record();
  read.data = {2'500'000, {{"web", 1'500'000, 0.312}}};
  EXPECT_NE(first_line(read).find(" | 500 ms | epoch 0.31 |   2.5M tokens | eta 4s"), std::string::npos);
  read.data.sources.push_back({"code", 1'000'000, 2.5});
  read.data.sources.push_back({"talk", 0, 1});
  EXPECT_NE(first_line(read).find(" | 500 ms | epochs 0.31-2.50 |   2.5M tokens | eta 4s"), std::string::npos);
}

TEST(LogLine, TellsOfAGpusMemoryAndOfNoUtilisationThatIsNotKnown) {
  auto on_device = record();
  on_device.device_used = static_cast<std::uint64_t>(91.2 * 0x1p30);
  on_device.device_total = static_cast<std::uint64_t>(139.8 * 0x1p30);
  const auto line = first_line(on_device);
  EXPECT_TRUE(line.ends_with(" | eta 4s | 1.5 GiB | gpu 91.2 of 139.8 GiB")) << line;
  EXPECT_EQ(line.find("MFU"), std::string::npos) << line;
}

TEST(LogLine, ShowsFractionsAndCountsFromTheStepOnInWhichTheyAreNotZero) {
  auto quiet = record(), waiting = record();
  set(waiting, "wait", 0.012);
  waiting.skipped = 1;
  const auto lines = lines_of({quiet, waiting, quiet});
  EXPECT_EQ(lines[0].find("wait"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("skip"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find(" | 500 ms | wait  1.2% | skip 1 | eta "), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find(" | 500 ms | wait  0.0% | skip 0 | eta "), std::string::npos) << lines[2];
}

TEST(LogLine, ShowsMemoryWhenItChanges) {
  auto more = record();
  set(more, "resident_bytes", 0x1p31);
  const auto lines = lines_of({record(), record(), more, more});
  EXPECT_TRUE(lines[0].ends_with(" | 1.5 GiB")) << lines[0];
  EXPECT_EQ(lines[1].find("GiB"), std::string::npos) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(" | 2.0 GiB")) << lines[2];
  EXPECT_EQ(lines[3].find("GiB"), std::string::npos) << lines[3];
}

TEST(LogLine, LeavesOutARateThatIsConstant) {
  LogLine line(0, false);
  line.add(record());
  EXPECT_NE(line.aligned().find("gnorm 0.00 |   2000 tok/s"), std::string::npos);
}

TEST(LogLine, PutsTheBarsOfALineBelowThoseOfTheLineBefore) {
  auto large = record(), small = record();
  large.step = 100, small.step = 9;
  large.steps = small.steps = 100;
  large.gradient_norm = 123.456;
  large.seconds = 12.5;
  small.loss = 12.5;
  const auto lines = lines_of({large, small, record()});
  EXPECT_EQ(lines[0].substr(0, 60), "step 100/100 | loss 2.5000 | gnorm 123.46 | lr 0.0e+00 |    ") << lines[0];
  EXPECT_EQ(lines[1].substr(0, 60), "step 9/100   | loss 12.5000 | gnorm   0.00 | lr 0.0e+00 |   ") << lines[1];
  EXPECT_EQ(lines[2].substr(0, 60), "step 3/10    | loss  2.5000 | gnorm   0.00 | lr 0.0e+00 |   ") << lines[2];
  EXPECT_EQ(lines[1].find(" |   500 ms"), lines[2].find(" |   500 ms")) << lines[1] << "\n" << lines[2];
}

TEST(LogLine, FitsIntoATerminal) {
  auto busy = record();
  set(busy, "bubble", 0.5);
  LogLine line(8e9);
  line.add(busy);
  const std::string whole = line.within(1000);
  EXPECT_NE(whole.find("1.5 GiB"), std::string::npos) << whole;
  EXPECT_EQ(line.within(whole.size()), whole);
  EXPECT_EQ(line.within(whole.size() - 1).find("GiB"), std::string::npos);
  EXPECT_EQ(line.within(60), "step 3/10 | loss 2.5000 | gnorm 0.00 | 2000 tok/s | eta 4s");
  EXPECT_EQ(line.within(40), "step 3/10 | loss 2.5000 | eta 4s");
  EXPECT_EQ(line.within(8), "step 3/1");
  for (std::size_t columns = 0; columns < whole.size(); ++columns) EXPECT_LE(line.within(columns).size(), columns);
}

TEST(LogLine, TellsOfExchangesWhereThereAreSome) {
  auto exchanged = record();
  set(exchanged, "exchange_bytes", 0x1p20);
  EXPECT_EQ(first_line(exchanged).find("exchange"), std::string::npos) << "all of it is hidden";
  set(exchanged, "bubble", 0.01);
  set(exchanged, "exchange", 0.031);
  EXPECT_NE(first_line(exchanged).find(" | bubble  1.0% exchange  3.1% | "), std::string::npos);
}

TEST(LogLine, TellsOfFurtherRoundsOfExchanges) {
  auto in_rounds = record();
  in_rounds.experts = {{1, "layers.1", {5, 3}, 0, 3}, {2, "layers.2", {4, 4}, 0, 4}};
  EXPECT_NE(first_line(in_rounds).find(" | 7 more rounds | eta "), std::string::npos);
}

}  // namespace
}  // namespace millrace::actors
