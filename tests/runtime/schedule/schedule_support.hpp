#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Builds lists from text: {"0F0 0B0", "1F0 1B0"}.
inline Schedule table(Placement placement, int microbatches, const std::vector<std::string>& rows) {
  Schedule schedule{"table", std::move(placement), microbatches, {}};
  for (const std::string& row : rows) {
    auto& list = schedule.ranks.emplace_back();
    for (std::size_t begin = 0; begin < row.size();) {
      const std::size_t end = std::min(row.find(' ', begin), row.size());
      list.push_back(parse_action(row.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  return schedule;
}

inline std::string text_of(const std::vector<Action>& list) {
  std::string text;
  for (const Action& action : list) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

/// The message of the Error(code) that `call` must throw.
template <class Call>
std::string error_of(ExitCode code, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
}

/// Every built-in schedule with every legal number of chunks up to 3, and 1f1b with longer warm-ups.
inline std::vector<ScheduleRequest> every_request(const std::vector<int>& ranks, int most_microbatches_per_rank) {
  std::vector<ScheduleRequest> requests;
  for (int p : ranks) {
    for (int m = 1; m <= most_microbatches_per_rank * p; ++m) {
      for (const std::string& name : schedule_names()) {
        for (int v = 1; v <= 3; ++v) {
          try {
            (void)make_schedule({name, p, v, m, {}});
            requests.push_back({name, p, v, m, {}});
          } catch (const Error&) {  // some schedules do not support every size
          }
        }
      }
      requests.push_back({"1f1b", p, 1, m, one_f_one_b_warmup(p, 2 * (p - 1))});
      requests.push_back({"1f1b", p, 1, m, one_f_one_b_warmup(p, p / 2)});
    }
  }
  return requests;
}

/// Every schedule once, with two chunks if it takes several; all of them support 4 ranks and 8 microbatches.
inline std::vector<ScheduleRequest> one_of_each(int ranks, int microbatches) {
  std::vector<ScheduleRequest> requests;
  for (const std::string& name : schedule_names()) requests.push_back({name, ranks, usual_chunks(name), microbatches, {}});
  return requests;
}

inline std::string name_of(const ScheduleRequest& request) {
  std::string name = fmt::format("{} P={} V={} M={}", request.name, request.ranks, request.chunks, request.microbatches);
  if (request.warmup) name += fmt::format(" warmup={}", request.warmup->front());
  return name;
}

}  // namespace millrace::runtime
