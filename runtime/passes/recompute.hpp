#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Puts the operations that compute a layer's unkept values again in front of that layer's first operation in I, and lets the layer's I and
/// W read their results. Only what is read is computed; a kept value ends the search. A value that another layer reads is that layer's
/// input and kept.
void insert_recomputation(ProgramSet& set, const RematerializationPolicy& policy);

}  // namespace millrace::runtime
