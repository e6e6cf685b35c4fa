#pragma once

#include <string>

#include "actors/setup/session.hpp"
#include "cluster/host/busy_processes.hpp"
#include "cluster/host/host_files.hpp"

namespace millrace::actors {

/// What the other programs of process 0's host use, from the construction on.
class OtherPrograms {
 public:
  OtherPrograms();
  /// Why times that were measured since, with `threads` threads in each of this host's ranks, may be theirs too; empty if they left room.
  [[nodiscard]] std::string doubt(const Session& session, int threads) const;

 private:
  [[nodiscard]] cluster::ProcessorTimes look() const;

  cluster::HostFiles files_ = cluster::HostFiles::of_this_host();
  cluster::ProcessorTimes before_;
};

}  // namespace millrace::actors
