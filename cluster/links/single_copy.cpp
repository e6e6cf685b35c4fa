#include "cluster/links/single_copy.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cluster {
namespace {

/// The name of the control variable's value; empty if there is no such variable.
std::string mechanism() {
  int index = 0;
  if (MPI_T_cvar_get_index("btl_vader_single_copy_mechanism", &index) != MPI_SUCCESS) return {};
  int no_length = 0, verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum names = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, nullptr, &no_length, &verbosity, &type, &names, nullptr, &no_length, &binding, &scope) != MPI_SUCCESS)
    return {};
  if (type != MPI_INT || names == MPI_T_ENUM_NULL) return {};

  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0, value = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return {};
  const bool read = count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  if (!read) return {};

  int kind_length = 0, items = 0;
  if (MPI_T_enum_get_info(names, &items, nullptr, &kind_length) != MPI_SUCCESS) return {};
  for (int item = 0; item < items; ++item) {
    std::array<char, 64> name{};
    int item_value = 0, length = static_cast<int>(name.size());
    if (MPI_T_enum_get_item(names, item, &item_value, name.data(), &length) == MPI_SUCCESS && item_value == value) return name.data();
  }
  return {};
}

/// Whether MPI has chosen single copies, and by means of process_vm_readv.
struct Chosen {
  bool single_copy = false, reads_processes = false;
};

Chosen chosen_by_mpi() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return {};
  const std::string found = mechanism();
  MPI_T_finalize();
  return {found == "cma" || found == "knem" || found == "xpmem", found == "cma"};
}

/// A word in the memory of a process, which the others try to read.
struct Word {
  pid_t process = 0;
  std::uint64_t value = 0;
  const std::uint64_t* at = nullptr;
};

bool readable(const Word& word) {
  std::uint64_t value = 0;
  const iovec here{&value, sizeof value}, there{const_cast<std::uint64_t*>(word.at), sizeof value};
  return process_vm_readv(word.process, &here, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof value) && value == word.value;
}

}  // namespace

bool single_copy_transfers(MPI_Comm communicator) {
  const auto [single_copy, reads_processes] = chosen_by_mpi();
  int processes = 0, process = 0;
  MPI_Comm_size(communicator, &processes);
  MPI_Comm_rank(communicator, &process);
  // Another process, or the same number elsewhere, hardly has this value at this place.
  const std::uint64_t value = 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(getpid() + process + 1);
  const Word own{getpid(), value, &value};
  std::vector<Word> all(static_cast<std::size_t>(processes));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, communicator), "MPI_Allgather");
  int good = single_copy && (!reads_processes || std::ranges::all_of(all, readable)) ? 1 : 0;
  // Also keeps the word alive until all have read it.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, communicator), "MPI_Allreduce");
  return good == 1;
}

}  // namespace millrace::cluster
