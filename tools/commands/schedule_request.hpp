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

/// The built-in schedule of that name. Error(usage) without --ranks or --microbatches, Error(config) for what it cannot do.
[[nodiscard]] runtime::Schedule built_in(const std::string& name, const Arguments& arguments);

/// The text of a table. Error(config) where there is no such file, with the schedule that was perhaps meant.
[[nodiscard]] std::string read_table(const std::string& path);
/// Error(usage) if options describe a built-in schedule: a table itself determines the number of ranks and microbatches.
void refuse_sizes(const std::string& path, const Arguments& arguments);

/// Either of both, proved.
[[nodiscard]] runtime::Schedule schedule_of(const std::string& word, const Arguments& arguments);

/// Costs of a schedule as the options give them: unit times and free links unless they say otherwise.
[[nodiscard]] runtime::Costs costs_of(const runtime::Schedule& schedule, const Arguments& arguments);
/// The same in a few words.
[[nodiscard]] std::string describe_costs(const Arguments& arguments);

/// One line: name, sizes, placement, hash.
[[nodiscard]] std::string describe(const runtime::Schedule& schedule);

/// `millrace schedule check`.
[[nodiscard]] Command schedule_check_command();

}  // namespace millrace::tools
