#pragma once

#include <string>

namespace millrace::cluster {

/// How this process was started, according to the launcher's environment (no MPI call).
struct Launch {
  int processes = 1;        ///< of the job
  int process = 0;          ///< 0 … processes − 1
  int local_processes = 1;  ///< of the job on this host
  int local_process = 0;    ///< 0 … local_processes − 1
  bool under_mpirun = false;
};

/// Reads OMPI_COMM_WORLD_SIZE and related variables. Without mpirun: one process, and MPI is never initialised. Throws
/// Error(start) if the variables contradict each other.
Launch launch_from_environment();

/// Which process hosts which ranks. A process hosts the contiguous ranks first_rank() … first_rank() + ranks_per_process() − 1.
class Topology {
 public:
  /// Throws Error(usage) with the legal counts unless processes divides ranks and process is one of them.
  Topology(int ranks, int processes, int process);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int processes() const noexcept { return processes_; }
  [[nodiscard]] int process() const noexcept { return process_; }
  [[nodiscard]] int ranks_per_process() const noexcept { return ranks_ / processes_; }
  [[nodiscard]] int first_rank() const noexcept { return first_rank_of(process_); }
  [[nodiscard]] int first_rank_of(int process) const noexcept { return process * ranks_per_process(); }
  [[nodiscard]] int process_of(int rank) const noexcept { return rank / ranks_per_process(); }
  [[nodiscard]] bool hosts(int rank) const noexcept { return process_of(rank) == process_; }

 private:
  int ranks_;
  int processes_;
  int process_;
};

/// "rank 3" or "ranks 2-3": the ranks that `process` hosts, for messages.
std::string ranks_text(const Topology& topology, int process);

/// This host's name, at most 63 bytes.
std::string host_name();

}  // namespace millrace::cluster
