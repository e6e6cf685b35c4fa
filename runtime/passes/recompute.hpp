#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Inserts the operations that recompute a layer's unkept values before that layer's first operation in I, and lets the layer's I
/// and W read their results. Only values that are read are recomputed, and kept values end the search. A value that another layer
/// reads is that layer's input and is kept. Rows that were exchanged are exchanged once more, in I. Results of operations that no policy
/// keeps (Operation::kept) are recomputed just before the first operation of I that reads them.
void insert_recomputation(ProgramSet& set, const RematerializationPolicy& policy);

}  // namespace millrace::runtime
