#include "cluster/host/log.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands{train_command(),      parity_command(),  inspect_command(),   debug_command(),
                                             replay_command(),     compare_command(), generate_command(),  evaluate_command(),
                                             checkpoint_command(), convert_command(), config_command(),    data_command(),
                                             schedule_command(),   profile_command(), report_command(),    rehearse_command(),
                                             plan_command(),       doctor_command(),  completion_command()};
  return commands;
}

const std::vector<Option>& common_options() {
  static const std::vector<Option> options{
      {.name = "log-level",
       .value = "LEVEL",
       .help = "The least important diagnostics that stderr shows. The variable MILLRACE_LOG_LEVEL sets it too.",
       .fallback = "info",
       .choices = cluster::log_level_names()}};
  return options;
}

}  // namespace millrace::tools
