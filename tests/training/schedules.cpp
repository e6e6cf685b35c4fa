#include "tests/training/schedules.hpp"

#include <algorithm>
#include <cctype>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/table.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {
namespace {

constexpr int kRanks = 4, kMicrobatches = 8;

// A schedule written by hand: it fills the bubble at the end with the weight gradients of the last microbatches. Rank 3 also splits
// its first backwards.
constexpr const char* kHandWritten =
    "#millrace-schedule 1\n"
    "# 1f1b with a tail of split backwards\n"
    "0F0,0F1,0F2,0F3,,,,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7\n"
    ",1F0,1F1,1F2,,,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1I5,1W5,1I6,1W6,1I7,1W7\n"
    ",,2F0,2F1,,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2I6,2I7,2W6,2W7\n"
    ",,,3F0,3I0,3F1,3I1,3W0,3W1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3I6,3F7,3I7,3W6,3W7\n";

std::string key(const char* name, int value) { return std::string(name) + "=" + std::to_string(value); }

ScheduleCase named_case(const std::string& schedule) {
  ScheduleCase result{schedule, {key("pipeline.ranks", kRanks), key("pipeline.chunks", runtime::usual_chunks(schedule))}};
  result.words.push_back("pipeline.schedule=" + schedule);
  std::ranges::replace(result.name, '-', '_');
  if (std::isdigit(static_cast<unsigned char>(result.name.front()))) result.name = "of_" + result.name;
  if (schedule == "dualpipe") {
    result.parts = 2;
    result.words.push_back("train.accumulators=1");  // make_plan() doubles it: one gradient sum per replica
  }
  return result;
}

ScheduleCase table_case(const std::string& name, const std::string& table, int chunks) {
  static const TemporaryFolder folder;  // lives as long as the tests
  return {name, {key("pipeline.ranks", kRanks), key("pipeline.chunks", chunks), "pipeline.plan=" + folder.write(name + ".csv", table)}};
}

std::string printed_table(const std::string& schedule, int chunks) {
  runtime::ScheduleRequest request;
  request.name = schedule;
  request.ranks = kRanks;
  request.chunks = chunks;
  request.microbatches = kMicrobatches;
  return runtime::print_table(runtime::make_schedule(request));
}

}  // namespace

const std::vector<ScheduleCase>& schedule_cases() {
  static const std::vector<ScheduleCase> all = [] {
    std::vector<ScheduleCase> list;
    for (const auto& schedule : runtime::schedule_names()) list.push_back(named_case(schedule));
    list.push_back(table_case("printed_v_half", printed_table("v-half", 2), 2));
    list.push_back(table_case("printed_dualpipe", printed_table("dualpipe", 1), 1));
    list.back().parts = 2;
    list.push_back(table_case("table_by_hand", kHandWritten, 1));
    return list;
  }();
  return all;
}

LayoutCase schedule_run(const ScheduleCase& schedule, const std::string& dtype, bool tied, int processes) {
  Numbers numbers{dtype, tied};
  numbers.layers = 8;
  numbers.microbatches = kMicrobatches;
  numbers.steps = 6;
  numbers.accumulators = schedule.parts;
  return {numbers, {schedule.name + "_in_" + std::to_string(processes), processes, schedule.words}};
}

}  // namespace millrace::tests
