#pragma once

#include <string>
#include <vector>

namespace millrace::runtime {

/// What is wrong with a trace in the JSON object form that trace_json writes; empty where it is sound. At most 20 problems, each naming the
/// event. Checked are: it is JSON with traceEvents of known phases; numbers are finite, durations not negative; the slices of every lane
/// (pid, tid) nest; pids and lanes have names; every flow has one begin and one end, each on a slice, the end with bp "e", and does not end
/// before it begins by more than the clock bounds of both ranks; counters are numbers.
[[nodiscard]] std::vector<std::string> trace_problems(const std::string& text);

}  // namespace millrace::runtime
