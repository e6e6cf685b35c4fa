#pragma once

/// What this source is compiled for. `Tiles` lives as long as a thread multiplies;
///
///   multiply_sums(Tiles&, const SumBlock&, each)
///
/// computes a block and meanwhile calls each(steps, rows) with parts of its steps and of its rows, which together are all; store_rounded()
/// rounds sums to bf16. Of the constants, kReadsAllRows says whether rows of a that are not needed must be numbers all the same,
/// kFetchesAll whether b and every block of c are fetched ahead, and kFinishesAtOnce whether there is also a form with a last argument
/// write(row, left, right), which gets the sums of each row while they are in registers. k and n are cut into parts of at most kTileDepth
/// and kTileWidth, so that a part of b stays in the L2 cache; sums that leave the registers between parts of k come back as they were, so
/// no bit depends on them. Only for sources of millrace_tile_kernel().
#if defined(MILLRACE_DOT_PRODUCTS)
#include "kernels/cpu/gemm/dot_sums.hpp"
#else
#include "kernels/cpu/gemm/tile_sums.hpp"
#endif
