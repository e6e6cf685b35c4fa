#pragma once

#include "runtime/schedule/generators/list_writer.hpp"

namespace millrace::runtime {

/// The position of a rank in DualPipe or DualPipeV.
struct DualPipePosition {
  StageId first;         // the stage whose forwards come first
  StageId second;        // the other stage of the rank
  int microbatches = 0;  // per stage
  int depth = 0;         // number of ranks between this one and the end at which microbatches enter
  int depths = 0;        // the two directions meet at depth depths − 1: there are no ranks in between
};

/// Writes the eight phases of section 2 of the DualPipe README (DeepSeek-AI 2024) for one rank. Requires microbatches ≥ 2·depths.
void write_dualpipe_phases(ListWriter& list, const DualPipePosition& at);

}  // namespace millrace::runtime
