#pragma once

#include <string>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// Options that complete the name of a built-in schedule.
[[nodiscard]] std::vector<Option> schedule_options();
/// Options that set the costs of a schedule; `costs` is the default of --costs.
[[nodiscard]] std::vector<Option> price_options(const std::string& costs);

/// Whether `word` names a built-in schedule; otherwise it is a file.
[[nodiscard]] bool is_built_in(const std::string& word);

/// The built-in schedule of that name. Throws Error(usage) without --ranks or --microbatches, Error(config) for settings that the
/// schedule does not support.
[[nodiscard]] runtime::Schedule built_in(const std::string& name, const Arguments& arguments);

/// The text of a table file. Throws Error(config) if there is no such file, and suggests the nearest name of a schedule.
[[nodiscard]] std::string read_table(const std::string& path);
/// Error(usage) if options describe a built-in schedule: a table itself determines the number of ranks and microbatches.
void refuse_sizes(const std::string& path, const Arguments& arguments);

/// A built-in schedule or a table, proved free of deadlock.
[[nodiscard]] runtime::Schedule schedule_of(const std::string& word, const Arguments& arguments);

/// The costs of a schedule from the options; unit times and free links by default.
[[nodiscard]] runtime::Costs costs_of(const runtime::Schedule& schedule, const Arguments& arguments);
/// The costs in a few words, for the output.
[[nodiscard]] std::string describe_costs(const Arguments& arguments);

/// One line: name, sizes, placement, hash.
[[nodiscard]] std::string describe(const runtime::Schedule& schedule);

/// `millrace schedule check`.
[[nodiscard]] Command schedule_check_command();

}  // namespace millrace::tools
