// The millrace command: finds the word, runs it, turns an Error into its message and exit code.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cluster/host/console.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/io/fault.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/standard_streams.hpp"

namespace {

using millrace::tools::Command;

const std::array<Command, 17> commands{{
    {"train", "RUN.toml [key=value …]", "train a model; the same command again resumes it. Alone or under mpirun", millrace::tools::train},
    {"parity", "DIR [--ranks P] [--chunks V] [--schedule NAME] [--dtype fp32|bf16] [--tolerance X]",
     "compare a converted model with reference outputs, gradients included", millrace::tools::parity},
    {"inspect", "RUN.toml [--stage S] [key=value …]", "print a stage's programs: operations, shapes, labels, FLOPs, bytes, memory",
     millrace::tools::inspect},
    {"debug", "RUN.toml [--script FILE] [--checkpoint FOLDER] [key=value …]",
     "the whole pipeline in one process, an action or an operation at a time: break points, tensors, NaN", millrace::tools::debug,
     millrace::tools::debug_help},
    {"replay", "RUN_DIRECTORY --step N [--stage S [--repeat R]] [key=value …]",
     "a finished step again, bit for bit, from the nearest checkpoint; or one stage of it alone", millrace::tools::replay,
     millrace::tools::replay_help},
    {"compare", "RUN_A RUN_B",
     "where two runs trained with --record hashes first differ: step, microbatch, stage, operation, tensor, values",
     millrace::tools::compare, millrace::tools::compare_help},
    {"generate", "--model DIR --prompt TEXT [--tokens N] [--temperature T] [--tokenizer PATH|byte] …",
     "a trained model writes on behind a prompt. Alone or under mpirun", millrace::tools::generate, millrace::tools::generate_help},
    {"eval", "--model DIR data.text=FILES|data.tokens=FILES [--sequence S] [--batch B] [--json] …",
     "the loss of a trained model on files: nats a token, perplexity, bits a byte. Alone or under mpirun", millrace::tools::evaluate,
     millrace::tools::evaluate_help},
    {"ckpt", "ls|verify|hash|export-hf RUN_DIRECTORY|CHECKPOINT …", "list, check, hash and export checkpoints",
     millrace::tools::checkpoint},
    {"convert", "FROM TO [--dtype fp32|bf16] [--format folder|llmc]", "a published model's folder or llm.c file, as another",
     millrace::tools::convert, millrace::tools::convert_help},
    {"config", "show|keys [RUN.toml] [key=value …]", "print every value with the file and line it came from, or every key",
     millrace::tools::config},
    {"data", "tokenize --tokenizer PATH --out PREFIX|FILE FILES|FOLDERS … | inspect FILE [--tokenizer PATH]",
     "make token files of text, or look into one", millrace::tools::data, millrace::tools::data_help},
    {"schedule", "list | show|check|simulate NAME|FILE [--ranks P --microbatches M] …",
     "list pipeline schedules; draw, prove and price a built-in one or a table of your own", millrace::tools::schedule,
     millrace::tools::schedule_help},
    {"profile", "RUN.toml [--steps N] [--out FOLDER] [key=value …] | --check FOLDER",
     "where the time of some steps goes, by rank and cause, action and operation. Alone or under mpirun", millrace::tools::profile,
     millrace::tools::profile_help},
    {"rehearse", "NAME|FILE [--ranks P --microbatches M] [--costs F,I,W[,c]] …",
     "run a schedule with timers in the place of compute, beside its prediction. Alone or under mpirun", millrace::tools::rehearse,
     millrace::tools::rehearse_help},
    {"plan", "RUN.toml [--measure | --costs FILE] [--memory BYTES] [--out PLAN.toml] [key=value …]",
     "choose layout, schedule and rematerialisation by what the model's parts cost", millrace::tools::plan, millrace::tools::plan_help},
    {"doctor", "", "what this machine and this build can do", millrace::tools::doctor},
}};

void print_usage(std::FILE* to) {
  fmt::print(to, "millrace trains large language models across a pipeline of actors.\n\n");
  for (const auto& command : commands)
    fmt::print(to, "  millrace {:<8} {}\n                    {}\n", command.name, command.usage, command.summary);
  fmt::print(to, "\nExit codes are in docs/errors.md.\n");
}

int run(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "--help" || words.front() == "help") {
    print_usage(words.empty() ? stderr : stdout);
    return words.empty() ? static_cast<int>(millrace::ExitCode::usage) : 0;
  }
  if (words.front() == "--version") {
    fmt::print("{}\n", millrace::tools::build_id());
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& command : commands) {
    names.emplace_back(command.name);
    if (words.front() != command.name) continue;
    if (std::find(words.begin() + 1, words.end(), "--help") != words.end()) {
      fmt::print("millrace {} {}\n  {}\n{}", command.name, command.usage, command.summary, command.details);
      return 0;
    }
    (void)millrace::kernels::cpu_features();  // a wrong MILLRACE_ISA is reported before anything runs
    return command.run({words.begin() + 1, words.end()});
  }
  const auto close = millrace::nearest_name(words.front(), names);
  millrace::fail(millrace::ExitCode::usage, "millrace", "unknown command {}{}", words.front(),
                 close.empty() ? "; millrace --help lists them" : ", nearest is " + close);
}

int run_or_tell(const std::vector<std::string>& words) {
  // Not fmt::print, which throws where stderr cannot be written.
  const auto tell = [](const std::string& message) { std::fputs((message + "\n").c_str(), stderr); };
  try {
    millrace::runtime::set_faults_from_environment();
    return run(words);
  } catch (const millrace::Error& error) {
    tell(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    const auto code = millrace::cluster::exit_code_of(error);
    if (code == millrace::ExitCode::internal) tell(fmt::format("[millrace] {}", error.what()));
    return static_cast<int>(code);
  }
}

}  // namespace

int main(int argc, char** argv) {
  millrace::tools::prepare_streams();
  return millrace::tools::finish_streams(run_or_tell({argv + 1, argv + argc}));
}
