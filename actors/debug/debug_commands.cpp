// The debugger's commands by name: their table, reading a line, help and completion.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

#include "actors/debug/component.hpp"
#include "actors/debug/debug_session.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::actors {
namespace {

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max() - 1;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word && !word.starts_with('#');) words.push_back(word);
  return words;
}

}  // namespace

const std::vector<DebugSession::Command>& DebugSession::commands() {
  static const std::vector<Command> all{
      {"step", "s", "[N]",
       "run N actions, or segments of them where exchanges divide them, in the recorded order over all ranks, and select the rank of the "
       "last one",
       1, &DebugSession::step},
      {"next", "n", "[N]", "run until the selected rank has run N more actions", 1, &DebugSession::next},
      {"op", "o", "[N]", "run N operations; before an action, the first of them only begins it", 1, &DebugSession::operation},
      {"run", "c", "", "run until a break point, or the end", 0, &DebugSession::go},
      {"until", "u", "2F3 | step N",
       "run until that action, or the first one of that step, is next; if it is already, until it is next again", 2, &DebugSession::until},
      {"back", "", "[N]", "go back N actions, by running again up to there", 1, &DebugSession::back},
      {"break", "b", "[step N] [stage N] [forward|backward|…] [microbatch N] [op NAME | layer N] | nan | when norm(layer 5) > 1e3",
       "set a break point; without arguments: list them", no_limit, &DebugSession::break_at},
      {"delete", "d", "N | all", "remove a break point, or all of them and all watches", 1, &DebugSession::remove},
      {"watch", "", "[TENSOR]", "stop after an action that changes it; without arguments: list them", 1, &DebugSession::watch},
      {"rank", "", "N", "select another rank: `print` and `ops` then show its newest action, and `next` waits for its next one", 1,
       &DebugSession::turn_to},
      {"where", "w", "", "all ranks: actions done and running, and waits", 0, &DebugSession::where},
      {"queue", "", "", "messages and free slots of every edge", 0, &DebugSession::queue},
      {"ops", "", "[2F3]", "the program of the current action, or of another one", 1, &DebugSession::operations},
      {"print", "p", "TENSOR[0:4, :8]", "shape, type, statistics, and the elements of a slice as in numpy; without one: the corner",
       no_limit, &DebugSession::print},
      {"stats", "", "[PART]", "statistics of all weights and gradients with PART in their names", 1, &DebugSession::statistics},
      {"hist", "", "TENSOR", "histogram of the magnitudes", 1, &DebugSession::histogram},
      {"dump", "", "TENSOR FILE.safetensors", "write it", 2, &DebugSession::dump},
      {"diff", "", "TENSOR FILE.safetensors", "compare it with one in a file", 2, &DebugSession::difference},
      {"set", "", "TENSOR[2, 3] VALUE", "change one element, which can also be its number in memory: set TENSOR 7 nan; `back` undoes it",
       no_limit, &DebugSession::set},
      {"show", "", "routing [TOKEN]",
       "what the routers of this stage chose: tokens per expert, and the experts of a token with their weights", 2, &DebugSession::show},
      {"help", "h", "[COMMAND]", "this list, or one line of it", 1, &DebugSession::help},
      {"quit", "q", "", "end the session", 0, &DebugSession::quit},
  };
  return all;
}

const DebugSession::Command* DebugSession::find_command(const std::string& word) {
  const auto found = std::ranges::find_if(
      commands(), [&](const Command& command) { return word == command.name || (*command.brief != 0 && word == command.brief); });
  return found == commands().end() ? nullptr : &*found;
}

/// Throws Error(usage) with the nearest name for an unknown one.
const DebugSession::Command& DebugSession::command_of(const std::string& word) {
  std::vector<std::string> names;
  if (const auto* found = find_command(word)) return *found;
  for (const auto& command : commands()) names.emplace_back(command.name);
  fail(ExitCode::usage, debugger, "unknown command {}{}; `help` lists the commands", word,
       word.size() > 1 ? did_you_mean(word, names) : "");
}

bool DebugSession::carry_out(const std::string& line) {
  const auto words = words_of(line);
  if (words.empty()) return reader_->interactive() && !repeated_.empty() && carry_out(repeated_);
  const auto& chosen = command_of(words[0]);
  MILLRACE_CHECK(words.size() <= chosen.most + 1, ExitCode::usage, debugger, "{}, expected {}{}{}", line, chosen.name,
                 *chosen.usage != 0 ? " " : " alone", chosen.usage);
  const bool advances = chosen.run == &DebugSession::step || chosen.run == &DebugSession::next || chosen.run == &DebugSession::operation;
  repeated_ = advances ? line : "";
  return (this->*chosen.run)(words);
}

std::vector<std::string> DebugSession::words_after(const std::string& before) const {
  const auto words = words_of(before);
  std::vector<std::string> found;
  if (words.empty()) {
    for (const auto& command : commands()) found.emplace_back(command.name);
    return found;
  }
  const auto* command = find_command(words[0]);
  const std::string_view name = command == nullptr ? "" : command->name;
  for (const char* takes_tensor : {"print", "hist", "dump", "diff", "watch", "set"})
    if (name == takes_tensor && words.size() == 1) return finder().names();
  if (name == "break")
    return {"stage", "microbatch", "layer", "op", "step", "nan", "forward", "backward", "input_gradient", "weight_gradient", "when"};
  if (name == "until") return {"step"};
  if (name == "help") return words_after("");
  if (name == "show") return {"routing"};
  return found;
}

bool DebugSession::help(const std::vector<std::string>& words) {
  const Command* only = words.size() > 1 ? &command_of(words[1]) : nullptr;
  for (const auto& command : commands()) {
    if (only != nullptr && &command != only) continue;
    const auto head = fmt::format("{}{}{} {}", command.name, *command.brief != 0 ? ", " : "", command.brief, command.usage);
    fmt::print("{:<34}{}{}\n", head, head.size() > 33 ? "\n" + std::string(34, ' ') : "", command.summary);
  }
  if (only == nullptr)
    fmt::print(
        "Actions are STAGE LETTER MICROBATCH: 2F3 forward, 2B3 backward, 2I3 and 2W3 its halves. # begins a comment.\n"
        "On a terminal, an empty line repeats step, next or op.\n");
  return false;
}

}  // namespace millrace::actors
