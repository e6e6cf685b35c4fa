#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/base/device_context.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::runtime {

/// Caches what a stage enqueues for one program and one set of slots as a graph, which is launched with one call. The
/// slots of a schedule recur after a few microbatches, so after some steps only graphs are launched.
class GraphCache {
 public:
  /// Further sets of slots run directly, since a graph takes some device memory.
  static constexpr std::size_t most = 256;

  /// `body` enqueues the program on `device`, which has graphs. It is run directly the first time, when libraries choose their algorithms;
  /// captured the second time; and from then on the captured graph is launched. Throws the exceptions of `body`.
  template <class Body>
  void run(kernels::DeviceContext& device, ProgramKind kind, const Bindings& bindings, Body&& body) {
    Entry* entry = find(kind, bindings);
    if (entry == nullptr) {
      if (entries_.size() < most) entries_.push_back({kind, bindings.base, {}});
      return body();
    }
    if (!entry->graph) {
      kernels::Graph::begin(device);
      try {
        body();
        entry->graph.end(device);
      } catch (...) {
        kernels::Graph::abandon(device);
        throw;
      }
    }
    entry->graph.launch(device);
  }

 private:
  struct Entry {
    ProgramKind kind;
    std::array<std::byte*, region_count> bases;
    kernels::Graph graph;
  };
  Entry* find(ProgramKind kind, const Bindings& bindings) {
    for (Entry& entry : entries_)
      if (entry.kind == kind && entry.bases == bindings.base) return &entry;
    return nullptr;
  }
  std::vector<Entry> entries_;
};

}  // namespace millrace::runtime
