#include "actors/jobs/other_programs.hpp"

#include <unistd.h>

#include <chrono>

#include "cluster/host/host_cores.hpp"

namespace millrace::actors {

OtherPrograms::OtherPrograms() : before_(look()) {}

std::string OtherPrograms::doubt(const Session& session, int threads) const {
  const auto others = look().since(before_);
  const auto teams = cluster::host_teams(session.topology(), session.launch(), cluster::usable_cores(), threads);
  return cluster::crowded_text(others, teams.ranks * teams.threads, cluster::host_core_count(),
                               session.topology().processes() > 1 ? cluster::own_command(files_) : "");
}

cluster::ProcessorTimes OtherPrograms::look() const {
  return cluster::ProcessorTimes::now(files_, getpid(), std::chrono::steady_clock::now());
}

}  // namespace millrace::actors
