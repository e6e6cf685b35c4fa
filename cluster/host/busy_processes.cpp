#include "cluster/host/busy_processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <sstream>

#include "kernels/base/count.hpp"

namespace millrace::cluster {
namespace {

constexpr double least_cores = 0.05;
constexpr std::size_t most_named = 3;

std::optional<int> number_of(const std::string& name) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

/// A worker of the kernel has the name of its work behind its own, "kworker/u8:1-events": it is the same one with other work.
std::string name_of(const std::string& name) { return name.starts_with("kworker/") ? name.substr(0, name.find_first_of("-+")) : name; }

}  // namespace

ProcessorTimes ProcessorTimes::now(const HostFiles& files, int own, std::chrono::steady_clock::time_point at) {
  ProcessorTimes times;
  times.at_ = at;
  for (const auto& entry : files.entries("/proc")) {
    const auto process = number_of(entry);
    if (!process || *process == own) continue;
    // "PID (NAME) S 1 …": the name may contain blanks and parentheses; user and system time are the 12th and 13th word after it.
    const auto text = files.text("/proc/" + entry + "/stat").value_or("");
    const auto open = text.find('('), close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    std::istringstream words(text.substr(close + 1));
    std::string skipped;
    for (int word = 0; word < 11; ++word) words >> skipped;
    std::uint64_t user = 0, system = 0;
    if (words >> user >> system) times.processes_[*process] = {name_of(text.substr(open + 1, close - open - 1)), user + system};
  }
  return times;
}

std::vector<BusyCommand> ProcessorTimes::since(const ProcessorTimes& before) const {
  const double seconds = std::chrono::duration<double>(at_ - before.at_).count();
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::map<std::string, BusyCommand> by_name;
  for (const auto& [id, process] : processes_) {
    const auto earlier = before.processes_.find(id);
    const bool same = earlier != before.processes_.end() && earlier->second.name == process.name && earlier->second.ticks <= process.ticks;
    const auto ticks = process.ticks - (same ? earlier->second.ticks : 0);
    if (ticks == 0 || seconds <= 0) continue;
    auto& command = by_name[process.name];
    command.name = process.name;
    ++command.processes;
    command.cores += static_cast<double>(ticks) / ticks_per_second / seconds;
  }
  std::vector<BusyCommand> commands;
  for (const auto& [name, command] : by_name)
    if (command.cores >= least_cores) commands.push_back(command);
  std::ranges::stable_sort(commands, std::greater{}, &BusyCommand::cores);
  return commands;
}

double missing_cores(const std::vector<BusyCommand>& others, double own, double cores, std::string_view except) {
  double used = 0;
  for (const auto& command : others)
    if (except.empty() || command.name != except) used += command.cores;
  return std::max(0.0, std::min(own, cores) + used - cores);
}

std::string crowded_text(std::vector<BusyCommand> others, double own, double cores, std::string_view except) {
  constexpr double most_missing = 0.15;  // of the cores that the threads need
  if (missing_cores(others, own, cores, except) <= most_missing * std::min(own, cores)) return "";
  if (!except.empty()) std::erase_if(others, [&](const BusyCommand& command) { return command.name == except; });
  double used = 0;
  for (const auto& command : others) used += command.cores;
  return fmt::format("other programs used {:.1f} of the {:.0f} cores meanwhile; {}", used, cores, busy_text(others));
}

std::string own_command(const HostFiles& files) {
  auto name = files.text("/proc/self/comm").value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

double host_core_count() { return static_cast<double>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN))); }

std::string busy_text(const std::vector<BusyCommand>& commands) {
  if (commands.empty()) return "no other process that is visible here was busy: perhaps one of another container or virtual machine is";
  std::vector<std::string> words;
  for (std::size_t index = 0; index < std::min(most_named, commands.size()); ++index) {
    const auto& command = commands[index];
    words.push_back(fmt::format("{} with {:.0f} % of a core", command.name, 100 * command.cores));
    if (command.processes > 1) words.back() += fmt::format(" in {}", counted(command.processes, "process"));
  }
  return fmt::format("busiest besides: {}", fmt::join(words, ", "));
}

}  // namespace millrace::cluster
