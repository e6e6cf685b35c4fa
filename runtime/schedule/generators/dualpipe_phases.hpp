#pragma once

#include "runtime/schedule/generators/list_writer.hpp"

namespace millrace::runtime {

/// Where a rank stands in DualPipe or DualPipeV.
struct DualPipePosition {
  StageId first;         // the stage that starts: its forwards come first
  StageId second;        // the other one
  int microbatches = 0;  // of each of the two
  int depth = 0;         // how many ranks are between this one and the end at which microbatches enter
  int depths = 0;        // at depth depths − 1 the two meet: there are no more ranks in between
};

/// Writes the eight phases of section 2 of the DualPipe README (DeepSeek-AI 2024) for one rank; wants microbatches ≥ 2·depths.
void write_dualpipe_phases(ListWriter& list, const DualPipePosition& at);

}  // namespace millrace::runtime
