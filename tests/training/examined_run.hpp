#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/pipeline.hpp"

namespace millrace::tests {

/// Trains the smallest model in this process, or under mpirun in each, as `millrace train` does; `examine` sees the ranks, links
/// and traces after all have stopped. Three steps of four microbatches of 2 x 32 tokens, without evaluation, on the data of
/// `write_small_texts` in `data`.
void run_examined(const std::string& data, const std::vector<std::string>& overrides,
                  const std::function<void(actors::Pipeline&)>& examine);

}  // namespace millrace::tests
