#pragma once

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The schedule of `copies` copies of a pipeline (Placement::copies_of), each of which runs `one`, with as many times its microbatches,
/// dealt between all replicas (GlobalOrder). Copies do not wait for each other.
[[nodiscard]] Schedule replicate(const Schedule& one, int copies);

/// The schedule that copy 0 of `all` runs, and the others as well: the inverse of replicate().
[[nodiscard]] Schedule one_copy(const Schedule& all);

/// The ledger of a replicated schedule. `ledger` and `placement` are those of one copy.
[[nodiscard]] Ledger replicate(const Ledger& ledger, const Placement& placement, int copies);

}  // namespace millrace::runtime
