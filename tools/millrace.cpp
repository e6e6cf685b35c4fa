// The millrace program: runs the command that the command line names, and turns an Error into its message and exit code.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "runtime/io/fault.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/standard_streams.hpp"

namespace {

/// Prints a message on stderr. fmt::print would throw if stderr cannot be written.
void print_error(const std::string& message) { std::fputs((message + "\n").c_str(), stderr); }

/// --log-level, else MILLRACE_LOG_LEVEL, else the option's default.
void set_log_level(const millrace::tools::Arguments& arguments) {
  const char* variable = std::getenv("MILLRACE_LOG_LEVEL");
  const bool from_variable = variable != nullptr && *variable != '\0' && !arguments.given("log-level");
  millrace::cluster::set_log_level(millrace::cluster::parse_log_level(from_variable ? variable : arguments.text("log-level"),
                                                                      from_variable ? "MILLRACE_LOG_LEVEL" : "--log-level"));
}

/// The exit code of a process whose error process 0 reports. mpirun kills the whole job as soon as one process exits with an error, so
/// that the others wait: process 0 has to print first, and its exit ends them.
int exit_after_process_0(millrace::ExitCode code) {
  if (code != millrace::ExitCode::ok) std::this_thread::sleep_for(std::chrono::seconds(5));
  return static_cast<int>(code);
}

/// Runs the command and returns the exit code. The processes of a job have the same command line: only process 0 prints help and
/// errors of the command line.
int run(const std::vector<std::string>& words) {
  const bool leads = millrace::cluster::launch_from_environment().process == 0;
  millrace::tools::Invocation invocation;
  try {
    invocation = millrace::tools::parse_command_line(millrace::tools::all_commands(), words, millrace::tools::version_text());
    if (invocation.command != nullptr) set_log_level(*invocation.arguments);
  } catch (const millrace::Error& error) {
    if (leads) throw;
    return exit_after_process_0(error.code());
  }
  if (invocation.command == nullptr) {
    if (!leads) return exit_after_process_0(invocation.code);
    std::fputs(invocation.text.c_str(), invocation.code == millrace::ExitCode::ok ? stdout : stderr);
    return static_cast<int>(invocation.code);
  }
  millrace::runtime::set_faults_from_environment();
  (void)millrace::kernels::cpu_features();  // a wrong MILLRACE_ISA is reported before anything runs
  return invocation.command->run(*invocation.arguments);
}

/// Prints an error as its message and returns its exit code.
int run_and_report(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const millrace::Error& error) {
    print_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& thrown) {
    const auto error = millrace::cluster::error_of(thrown, "millrace");
    // finish_streams() reports a standard stream that cannot be written.
    if (error.code() != millrace::ExitCode::storage) print_error(error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  millrace::tools::prepare_streams();
  return millrace::tools::finish_streams(run_and_report({argv + 1, argv + argc}));
}
