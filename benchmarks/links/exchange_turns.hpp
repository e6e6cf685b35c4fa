#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/links/turns.hpp"
#include "cluster/exchange/exchange.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Exchanges among all processes, one member each: `bytes` from each to each other one, nothing to itself.
struct ExchangeCase {
  ExchangeCase(const Transport& transport, std::size_t bytes);
  std::size_t bytes;
  int process, processes;
  Ring from, into;
  std::vector<std::int64_t> at, sizes;  // of exchanges
  std::vector<int> offsets, counts;     // of MPI_Alltoallv
  [[nodiscard]] int repetitions() const;
};

// All processes call the same function at the same time.

/// Seconds per exchange, one directly after the other, by MPI_Alltoallv or by exchanges, both on the transport thread.
double repeated_alltoallv(Transport& transport, ExchangeCase& test);
double repeated_exchange(Transport& transport, ExchangeCase& test);

/// The seconds of each of `turns` exchanges in process 0, which begins after a pause, when the others already wait for it.
/// MPI_Alltoallv is called on the transport thread; exchanges are posted by the caller's, as a worker does.
std::vector<double> paced_alltoallv(Transport& transport, ExchangeCase& test, int turns);
std::vector<double> paced_exchange(Transport& transport, ExchangeCase& test, int turns);

}  // namespace millrace::cluster
