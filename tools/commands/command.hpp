#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configs/load.hpp"
#include "tools/commands/command_line.hpp"

namespace millrace::tools {

// The commands of the program, each in a file of its name.
[[nodiscard]] Command train_command();
[[nodiscard]] Command parity_command();
[[nodiscard]] Command inspect_command();
[[nodiscard]] Command debug_command();
[[nodiscard]] Command replay_command();
[[nodiscard]] Command compare_command();
[[nodiscard]] Command generate_command();
[[nodiscard]] Command evaluate_command();
[[nodiscard]] Command checkpoint_command();
[[nodiscard]] Command convert_command();
[[nodiscard]] Command config_command();
[[nodiscard]] Command data_command();
[[nodiscard]] Command schedule_command();
[[nodiscard]] Command profile_command();
[[nodiscard]] Command report_command();
[[nodiscard]] Command rehearse_command();
[[nodiscard]] Command plan_command();
[[nodiscard]] Command doctor_command();
[[nodiscard]] Command completion_command();

/// The commands in the order in which `millrace --help` lists them.
[[nodiscard]] const std::vector<Command>& all_commands();

/// How --help describes the positional words of a command that loads a run.
inline constexpr const char* run_words = "RUN.toml [key=value …]";
/// The completions that a shell offers for them.
inline constexpr std::uint8_t offer_run = offer_files | offer_assignments | offer_runs;

/// What a command does with a run's description, and so what must be in it: to_train needs model and data, to_save also a run directory
/// where checkpoints are asked for.
enum class Needs : std::uint8_t { nothing, to_train, to_save };

/// Splits positional words into files, or names of installed runs ("quickstart"), and "key=value" overrides and loads the run; MILLRACE_…
/// variables of the environment are a layer between the two. Other values than the command needs may be missing.
[[nodiscard]] configs::LoadedRun load_run(const std::vector<std::string>& words, Needs needs = Needs::to_save);

/// Reads the sizes of a model from the folder or file that model.from names: LoadRequest::read_model.
[[nodiscard]] configs::ModelFile read_model_file(const std::string& path);

/// Logs each text as a warning and waits until all are written. In a job of several processes only one of them calls it.
void print_warnings(const std::vector<std::string>& warnings);
/// The same for the warnings about model.from and about values that have no effect.
void print_warnings(const configs::LoadedRun& run);

/// The commit that this binary was built from: "4c866c80a1b2", "4c866c80a1b2-dirty" if files of the repository had been changed, or
/// "unknown" outside of a repository. Generated at each build (cmake/commit.cmake).
[[nodiscard]] std::string_view source_commit();
/// Identifies the build of this binary: version, commit, compiler. It must be equal in all processes of a job.
[[nodiscard]] std::string build_id();
/// What `millrace --version` prints: the same, with the build type and the versions of libraries.
[[nodiscard]] std::string version_text();

}  // namespace millrace::tools
