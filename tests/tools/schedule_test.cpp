#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/schedule/schedule.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/xml.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

constexpr int found_a_fault = static_cast<int>(ExitCode::difference);

/// Runs millrace schedule WORD NAME for four ranks and eight microbatches.
CommandResult run(const std::string& word, const std::string& name, const Words& more = {}) {
  return run_millrace(joined({"schedule", word, name, "--ranks", "4", "--microbatches", "8"}, more));
}

TEST(ScheduleList, HasEverySchedule) {
  const auto result = run_millrace({"schedule", "list"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const auto& name : runtime::schedule_names()) EXPECT_NE(("\n" + result.out).find("\n" + name + " "), std::string::npos) << name;
  expect_parts(result.out, {"bubble (P-1)(F+I-W) | holds P microbatches", "M >= 2P"});
}

TEST(ScheduleHelp, TellsEveryOption) {
  const Words sizes{"--ranks P", "--microbatches M", "--chunks V", "--group N", "--warmup W", "--memory X"};
  const Words prices{"--costs F,I,W[,c]", "--link-latency X", "--slow RANK:FACTOR", "--jitter X", "--stall RANK:INDEX:X", "--seed N"};
  const auto help = [](const char* word) { return run_millrace({"schedule", word, "--help"}).out; };
  expect_parts(help("show"), joined(joined(sizes, prices), {"--svg FILE", "--csv FILE", "--full-csv FILE", "--trace FILE"}));
  expect_parts(help("simulate"), joined(joined(sizes, prices), {"--json"}));
  expect_parts(help("check"), joined(sizes, {"--slots N", "--outbox N", "code is 0, or 1"}));
}

TEST(ScheduleShow, DrawsAndCounts) {
  const auto result = run("show", "zb-h1");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"zb-h1: 4 ranks, 1 stage per rank (placement single), 8 microbatches, 96 actions, hash ",
                            "r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7 |\n",
                            "makespan          27", "=  11.1 %", "rank       busy     idle     peak", "slots F to I"});
}

TEST(ScheduleShow, CostsWarmUpAndGroupReachTheSchedule) {
  expect_parts(run("show", "1f1b", {"--costs", "1,1.1,0.8,0.05"}).out, {"makespan        32.7", "link 0.05"});
  expect_parts(run("show", "1f1b", {"--warmup", "6"}).out, {"peak               7 "});
  expect_parts(run("show", "interleaved", {"--chunks", "4"}).out, {"makespan       26.25", "4 stages per rank"});
  expect_parts(run("show", "interleaved", {"--group", "8"}).out, {"peak             7.5 "});
  const Words unequal{"--costs", "1,1.4,0.6,0.2", "--memory"};
  for (const auto& [limit, makespan] : {std::pair("4", 31.8), std::pair("5", 30.0)}) {
    expect_parts(run("show", "auto", joined(unequal, {limit})).out, {fmt::format("makespan  {:>10g}", makespan)});
  }
}

TEST(ScheduleShow, WritesEveryKindOfFile) {
  const TemporaryFolder folder;
  const auto shown = run("show", "dualpipe-v",
                         {"--svg", folder / "a.svg", "--csv", folder / "a.csv", "--full-csv", folder / "full.csv", "--trace",
                          folder / "a.json", "--costs", "1,1,1,0.5"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(xml_fault(read_file(folder / "a.svg")), "");
  EXPECT_GT(nlohmann::json::parse(read_file(folder / "a.json")).at("traceEvents").size(), 300U);
  expect_parts(read_file(folder / "full.csv"), {"0SEND_F0", "1RECV_F0", "OVERLAP_F_B"});
  expect_failure(run("show", "1f1b", {"--csv", folder / "a.csv"}), ExitCode::usage, {"a.csv exists already; --overwrite replaces it"});
  expect_failure(run("show", "1f1b", {"--overwrite"}), ExitCode::usage, {"--overwrite without a file to write"});
  const auto body = [](const std::string& text) { return text.substr(text.find("placement")); };  // everything but the name
  const auto own = run("show", "dualpipe-v").out;
  for (const char* file : {"a.csv", "full.csv"}) {
    const auto back = run_millrace({"schedule", "show", folder / file});
    ASSERT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(body(back.out), body(own)) << file;
  }
}

TEST(ScheduleShow, ALargePictureIsLeftOutOfTheText) {
  const auto result = run_millrace({"schedule", "show", "1f1b", "--ranks", "32", "--microbatches", "400"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"is left out; --svg FILE draws one", "makespan"});
}

TEST(ScheduleCheck, ProvesEverySchedule) {
  for (const auto& name : runtime::schedule_names()) {
    const auto result = run("check", name);
    EXPECT_EQ(result.code, 0) << result.err;
    expect_parts(result.out, {"well formed", "live  this engine", "live  free", "live  edge-fifo", "live  direction-fifo",
                              "live  rank-fifo", "live  rendezvous", name + ": proved"});
  }
}

/// Runs `schedule check` on the table.
CommandResult check(const TemporaryFolder& folder, const std::string& text, const Words& more = {}) {
  return run_millrace(joined({"schedule", "check", folder.write("own.csv", text)}, more));
}

TEST(ScheduleCheck, NamesWhatIsIllFormed) {
  const TemporaryFolder folder;
  const auto lacks = check(folder, "0F0\n1F0,1B0\n");
  EXPECT_EQ(lacks.code, found_a_fault);
  expect_parts(lacks.out, {"stage 0 on rank 0 has no B", "own.csv: rejected"});
  const auto early = check(folder, "0B0,0F0\n");
  EXPECT_EQ(early.code, found_a_fault);
  expect_parts(early.out, {"comes before its forward"});
  const auto header = check(folder, "#M 4\n0F0,0B0\n");
  EXPECT_EQ(header.code, found_a_fault);
  expect_parts(header.out, {"#M says 4, the table has 1"});
}

TEST(ScheduleCheck, ShowsTheCycleOfADeadTable) {
  const TemporaryFolder folder;
  const auto result = check(folder, "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_EQ(result.code, found_a_fault);
  expect_parts(result.out, {"rank 0 is stuck at 0B0 (action 1 of 4)", "rank 1 is stuck at 1F1",
                            "cycle: rank 0 waits for rank 1, which waits for rank 0", "own.csv: rejected"});
}

TEST(ScheduleCheck, TakesTheTransfersAsTheFileHasThem) {
  // Rank 0 sends both activations before it receives; rank 1 answers the first before it receives the second.
  const TemporaryFolder folder;
  const auto result = check(folder,
                            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  EXPECT_EQ(result.code, found_a_fault);
  expect_parts(result.out,
               {"sends and receives as the file has them", "live  this engine", "live  free", "live  edge-fifo", "live  direction-fifo",
                "DEAD  rank-fifo", "DEAD  rendezvous", "is stuck at 0SEND_F1", "cycle: rank 0 waits for"});
  const auto missing = check(folder, "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n");
  EXPECT_EQ(missing.code, found_a_fault);
  expect_parts(missing.out, {"DEAD  free", "which rank 1 has produced but not sent"});
}

TEST(ScheduleCheck, BoundsMayKillASchedule) {
  EXPECT_EQ(run("check", "interleaved", {"--slots", "4"}).code, 0);
  const auto result = run("check", "interleaved", {"--slots", "3"});
  EXPECT_EQ(result.code, found_a_fault);
  expect_parts(result.out, {"finds none of the 3 slots on its edge free", "cycle: ", "live  this engine", "interleaved: rejected"});
}

TEST(ScheduleCheck, AnUnreadableTableIsAnotherMatter) {
  const TemporaryFolder folder;
  expect_failure(check(folder, "0F0,0X0\n"), ExitCode::config, {"own.csv:1: cell 2"});
  expect_failure(run_millrace({"schedule", "check", folder / "none.csv"}), ExitCode::config,
                 {"none.csv is neither a built-in schedule nor a file"});
  EXPECT_EQ(run("check", "dualpipe", {"--microbatches", "7"}).code, static_cast<int>(ExitCode::config));
}

TEST(ScheduleSimulate, JsonHasThePublishedNumbers) {
  struct Row {
    const char* name;
    double makespan, span, peak;
  };
  // F = 1, I = 1.1, W = 0.8 and a latency of 0.05 between ranks, on four ranks with eight microbatches.
  for (const Row& row : {Row{"1f1b", 32.7, 32.7, 4}, Row{"zb-h2", 26.35, 25.0, 7}, Row{"interleaved", 28.25, 28.25, 5.5},
                         Row{"zb-v", 25.5, 24.9, 4}, Row{"dualpipe", 25.95, 25.95, 5}}) {
    const auto result = run("simulate", row.name, {"--costs", "1,1.1,0.8", "--link-latency", "0.05", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_NEAR(json.at("makespan").get<double>(), row.makespan, 1e-9) << row.name;
    EXPECT_NEAR(json.at("span").get<double>(), row.span, 1e-9) << row.name;
    EXPECT_NEAR(json.at("bubble").get<double>(), 1 - 8 * 2.9 / row.makespan, 1e-9) << row.name;
    EXPECT_EQ(json.at("peak").size(), 4U);
    EXPECT_EQ(json.at("peak").front().get<double>(), row.peak) << row.name;
  }
}

TEST(ScheduleSimulate, TheTextNamesEachCause) {
  const auto result = run("simulate", "1f1b", {"--costs", "10,10,10,0.5", "--slow", "2:1.3", "--jitter", "0.1", "--seed", "4"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_parts(result.out, {"work ", "bubble of the schedule", "slow ranks", "link latency", "jitter", "critical path: ", "most on rank 2",
                            "increase of the makespan per unit", "F 10, I 10, W 10, link 0.5, slow 2:1.3, jitter 0.1 seed 4"});
  EXPECT_EQ(run("simulate", "1f1b", {"--jitter", "0.1", "--seed", "4"}).out,
            run("simulate", "1f1b", {"--jitter", "0.1", "--seed", "4"}).out);
  EXPECT_NE(run("simulate", "1f1b", {"--jitter", "0.1", "--seed", "4"}).out,
            run("simulate", "1f1b", {"--jitter", "0.1", "--seed", "5"}).out);
}

TEST(SchedulePage, PicturesAreWhatTheCommandDraws) {
  const TemporaryFolder folder;
  const auto page = read_source("docs/schedules.md");
  std::size_t drawn = 0;
  for (const auto& name : runtime::schedule_names()) {
    // Unequal costs, which the search is made for.
    const Words more = name == "auto" ? Words{"--costs", "1,1.4,0.6,0.2", "--memory", "5"} : Words{};
    ASSERT_EQ(run("show", name, joined({"--svg", folder / "picture.svg", "--overwrite"}, more)).code, 0) << name;
    EXPECT_EQ(read_file(folder / "picture.svg"), read_source("docs/pictures/" + name + ".svg"))
        << "made anew by: millrace schedule show " << name << " --ranks 4 --microbatches 8 --svg docs/pictures/" << name << ".svg";
    EXPECT_NE(page.find("](pictures/" + name + ".svg)"), std::string::npos) << name;
    ++drawn;
  }
  const auto files = std::filesystem::directory_iterator(source_path("docs/pictures"));
  EXPECT_EQ(static_cast<std::size_t>(std::distance(begin(files), end(files))), drawn);
}

TEST(SchedulePage, NumbersAreWhatTheCommandSays) {
  const auto page = read_source("docs/schedules.md");
  for (const auto& name : runtime::schedule_names()) {
    const auto json = nlohmann::json::parse(run("simulate", name, {"--json"}).out);
    double peak = 0;
    for (const auto& rank : json.at("peak")) peak = std::max(peak, rank.get<double>());
    const auto row = fmt::format("| {} | {:g} | {:.1f} % | {:g} | {:.1f} % | {:g} |", name, json.at("makespan").get<double>(),
                                 100 * json.at("bubble").get<double>(), json.at("span").get<double>(),
                                 100 * json.at("span_bubble").get<double>() + 1e-9, peak);
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST(AddingASchedule, ShowsTheCodeOfItsExample) {
  const auto page = read_source("docs/adding_a_schedule.md");
  std::string code;
  for (const char* path : {"runtime/schedule/generators/zb_h1.cpp", "runtime/schedule/generators/schedules.inc",
                           "tests/runtime/schedule/golden_vectors_test.cpp", "tests/runtime/schedule/pictures_test.cpp"})
    code += read_source(path);
  int blocks = 0;
  for (const auto& block : code_blocks(page, "cpp")) {
    EXPECT_NE(code.find(block), std::string::npos) << "in no source:\n" << block;
    ++blocks;
  }
  EXPECT_EQ(blocks, 5);
}

}  // namespace
}  // namespace millrace::tests
