#pragma once

namespace millrace::kernels::cuda {

class FusedAttentions {};

}  // namespace millrace::kernels::cuda
