#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// How a job ended. 124: it did not end within its time.
struct JobResult {
  int code = -1;
  std::string out, err;
};

/// Runs the built `millrace` with these arguments: directly, or with more than one process under mpirun. Killed after `seconds`.
/// `environment` has entries NAME=value. `program`: another command than millrace, by its path in the build folder.
[[nodiscard]] JobResult run_job(int processes, const std::vector<std::string>& words, int seconds = 120,
                                const std::vector<std::string>& environment = {}, const std::string& program = "millrace");

/// The hash that `millrace parity` printed: the last word of its line; empty if there is none.
[[nodiscard]] std::string printed_hash(const std::string& out);

}  // namespace millrace::tests
