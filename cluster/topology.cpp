#include "cluster/topology.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::cluster {
namespace {

int integer_variable(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  MILLRACE_CHECK(error == std::errc{} && *end == '\0', ExitCode::start, "cluster.topology", "{} = \"{}\", expected a number", name, text);
  return value;
}

std::string divisors_text(int number) {
  std::string text;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) text += (text.empty() ? "" : ", ") + std::to_string(divisor);
  }
  return text;
}

}  // namespace

Launch launch_from_environment() {
  Launch launch;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return launch;
  launch.under_mpirun = true;
  launch.processes = integer_variable("OMPI_COMM_WORLD_SIZE", 1);
  launch.process = integer_variable("OMPI_COMM_WORLD_RANK", 0);
  launch.local_processes = integer_variable("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  launch.local_process = integer_variable("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  MILLRACE_CHECK(launch.processes > 0 && launch.process >= 0 && launch.process < launch.processes, ExitCode::start, "cluster.topology",
                 "the launcher says process {} of {}", launch.process, launch.processes);
  MILLRACE_CHECK(launch.local_processes > 0 && launch.local_process >= 0 && launch.local_process < launch.local_processes, ExitCode::start,
                 "cluster.topology", "the launcher says local process {} of {}", launch.local_process, launch.local_processes);
  return launch;
}

Topology::Topology(int ranks, int processes, int process) : ranks_(ranks), processes_(processes), process_(process) {
  MILLRACE_CHECK(ranks >= 1, ExitCode::usage, "cluster.topology", "{} ranks, expected 1 or more", ranks);
  MILLRACE_CHECK(processes >= 1 && ranks % processes == 0, ExitCode::usage, "cluster.topology",
                 "{} for {} (pipeline.ranks x mesh.data): the number of processes must divide the number of ranks; start it with mpirun "
                 "-np {}{}, or give it ranks for the processes: pipeline.ranks={} or mesh.data={} (--ranks {} of a command that has it)",
                 counted(processes, "process"), counted(ranks, "rank"), ranks > 1 ? "one of " : "", divisors_text(ranks), processes,
                 processes, processes);
  MILLRACE_CHECK(process >= 0 && process < processes, ExitCode::internal, "cluster.topology", "process {} of {}", process, processes);
}

std::string ranks_text(const Topology& topology, int process) {
  const int first = topology.first_rank_of(process);
  if (topology.ranks_per_process() == 1) return fmt::format("rank {}", first);
  return fmt::format("ranks {}-{}", first, first + topology.ranks_per_process() - 1);
}

std::string host_name() {
  char name[64] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace millrace::cluster
