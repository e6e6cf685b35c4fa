#include "kernels/base/range.hpp"

#include <nvtx3/nvToolsExt.h>

namespace millrace::kernels {

Range::Range(const char* name) noexcept { nvtxRangePushA(name); }
Range::~Range() { nvtxRangePop(); }

}  // namespace millrace::kernels
