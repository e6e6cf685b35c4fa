#pragma once

/// `Tiles`: the tile registers that this source is compiled for. Only for sources of millrace_tile_kernel().
#if defined(MILLRACE_MODEL_TILES)
#include "kernels/cpu/gemm/tile_model.hpp"
#else
#include "kernels/cpu/gemm/amx_tiles.hpp"
#endif
