#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/host/host_files.hpp"

namespace millrace::cluster {

/// What the processes of one command name used between two moments.
struct BusyCommand {
  std::string name;  // as in /proc/PID/stat, of at most 15 characters
  int processes = 0;
  double cores = 0;  // processor time by elapsed time: 1.5 is one and a half cores
};

/// The processor times of all other processes that are visible here, at one moment.
class ProcessorTimes {
 public:
  /// Reads /proc/PID/stat of every process but `own` and its threads.
  static ProcessorTimes now(const HostFiles& files, int own, std::chrono::steady_clock::time_point at);
  /// The commands that used a twentieth of a core or more since `before`, the busiest first. A process that ended meanwhile is not
  /// included, one that began meanwhile is.
  [[nodiscard]] std::vector<BusyCommand> since(const ProcessorTimes& before) const;

 private:
  struct Process {
    std::string name;
    std::uint64_t ticks = 0;
  };
  std::map<int, Process> processes_;  // by PID
  std::chrono::steady_clock::time_point at_;
};

/// The cores that are missing on a host with `cores` of them for `own` computing threads beside the other commands; 0 if there is room.
/// Commands named `except` do not count: they are processes of the same job.
[[nodiscard]] double missing_cores(const std::vector<BusyCommand>& others, double own, double cores, std::string_view except = "");

/// Why times that were measured on all cores of this host are not to be believed: "other programs used 1.9 of the 2 cores meanwhile;
/// busiest besides: …". Empty if at most 15 % of what `own` threads need was missing.
[[nodiscard]] std::string crowded_text(std::vector<BusyCommand> others, double own, double cores, std::string_view except = "");

/// The name of this process as BusyCommand has it; empty if it is not known.
[[nodiscard]] std::string own_command(const HostFiles& files);
/// The number of this host's cores, whoever may use them.
[[nodiscard]] double host_core_count();

/// "busiest besides: cc1plus with 192 % of a core in 4 processes, ninja with 8 % of a core", at most three; another sentence if there are
/// none.
[[nodiscard]] std::string busy_text(const std::vector<BusyCommand>& commands);

}  // namespace millrace::cluster
