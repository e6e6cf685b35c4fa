#pragma once

#include <string>
#include <vector>

namespace millrace::runtime {

/// Describes what is wrong with a trace in the JSON object format that trace_json writes; empty if it is sound. At most 20
/// problems, each with the event. Checks that it is JSON with traceEvents of known phases; that numbers are finite and durations
/// not negative; that the slices of every lane (pid, tid) nest; that pids and lanes have names; that every flow has one begin and
/// one end, each on a slice, the end with bp "e", and does not end before it begins by more than the clock bounds of both ranks;
/// and that counters are numbers.
[[nodiscard]] std::vector<std::string> trace_problems(const std::string& text);

}  // namespace millrace::runtime
