#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "schedule/schedule.h"
#include "simulator/simulator.h"

namespace tilewright {

// Runs the kernels of a body on the simulator and compares them with the interpreter.
//
//   KernelRunner runner("graph @k(%0: f32[s0]) -> f32[s0] ...");
//   runner.check({{"s0", 1000}});     // every candidate whose condition holds
struct KernelRunner {
  explicit KernelRunner(const std::string& text, const std::string& arch = "sm_90a")
      : KernelRunner(parse_graph(text), arch) {}
  explicit KernelRunner(Graph graph, const std::string& arch = "sm_90a") : body(std::move(graph)), arch(arch) {
    context.gpu = *default_gpu_of(arch);
    proposal = propose(body, context);
  }

  using Symbols = std::map<std::string, int64_t>;

  // Memory of a tensor: `shift` elements behind an address that is aligned as PyTorch's are, filled with a pattern
  // where nothing is stored.
  struct Memory {
    Memory(const Type& type, const Symbols& symbols, int64_t shift) : dtype(type.dtype) {
      for (const Expr& e : type.shape) shape.push_back(e.evaluate(symbols));
      for (const Expr& e : type.strides ? *type.strides : type.contiguous_strides())
        strides.push_back(e.evaluate(symbols));
      bytes = reach(shape, strides) * tilewright::bytes(dtype);
      storage.resize(static_cast<size_t>(bytes + shift * tilewright::bytes(dtype) + 256), std::byte{0x77});
      base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(storage.data()) + 255) / 256 * 256) +
             shift * tilewright::bytes(dtype);
    }
    Memory(const Memory&) = delete;
    HostTensor read() const { return load(dtype, shape, strides, base); }
    DType dtype;
    std::vector<int64_t> shape, strides;
    int64_t bytes = 0;
    std::vector<std::byte> storage;
    std::byte* base = nullptr;
  };

  struct Run {
    std::vector<HostTensor> outputs;
    sim::LaunchResult counters;
    KernelCode code;
  };

  bool holds(const Condition& c, const Symbols& symbols, int64_t shift) const {
    if (shift != 0 && c.pointer_alignment > 1) return false;
    for (const auto& [e, d] : c.divisible) {
      if (e.evaluate(symbols) % d != 0) return false;
    }
    for (const auto& [e, most] : c.at_most) {
      if (e.evaluate(symbols) > most) return false;
    }
    return true;
  }

  Run run(const Schedule& schedule, const Symbols& symbols, const std::vector<InterpValue>& inputs,
          int64_t shift) const {
    Run result;
    result.code = generate(body, schedule, arch, context);
    const LaunchShape shape = launch_shape(body, schedule, context.gpu);
    std::vector<std::unique_ptr<Memory>> memory;
    std::vector<std::vector<std::byte>> args;
    std::vector<sim::Allocation> allocations;
    std::map<const Value*, Memory*> of_parameter;
    auto pointer = [&](Memory& m, const std::string& name) {
      allocations.push_back({reinterpret_cast<uint64_t>(m.base), static_cast<uint64_t>(m.bytes), name});
      args.push_back(sim::arg(reinterpret_cast<uint64_t>(m.base)));
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value* v = body.parameters()[i];
      if (const auto* n = std::get_if<int64_t>(&inputs[i].data)) {
        args.push_back(sim::arg(*n));
      } else if (const auto* x = std::get_if<double>(&inputs[i].data)) {
        args.push_back(sim::arg(*x));
      } else if (v->type.device == "host") {
        const HostTensor& t = inputs[i].tensor();
        args.push_back(t.is_float() ? sim::arg(t.floats[0]) : sim::arg(t.ints[0]));
      } else {
        memory.push_back(std::make_unique<Memory>(v->type, symbols, shift));
        store(inputs[i].tensor(), memory.back()->strides, memory.back()->base);
        of_parameter[v] = memory.back().get();
        pointer(*memory.back(), "%" + v->name);
      }
    }
    std::vector<Memory*> outputs;
    for (const Output& o : body.outputs()) {
      if (o.into) {
        outputs.push_back(of_parameter.at(o.into));
        continue;
      }
      memory.push_back(std::make_unique<Memory>(o.tensor()->type, symbols, shift));
      outputs.push_back(memory.back().get());
      pointer(*memory.back(), "output");
    }
    std::vector<std::vector<std::byte>> workspaces;
    std::vector<std::span<std::byte>> used;
    for (size_t w = 0; w < shape.workspace_bytes.size(); ++w) {
      const bool zeroed = static_cast<int>(w) < shape.zeroed_workspaces;
      const auto size = static_cast<size_t>(shape.workspace_bytes[w].evaluate(symbols));
      workspaces.emplace_back(size + 256, zeroed ? std::byte{0} : std::byte{0x77});
      const uint64_t base = (reinterpret_cast<uint64_t>(workspaces.back().data()) + 255) / 256 * 256;
      used.emplace_back(reinterpret_cast<std::byte*>(base), size);
      allocations.push_back({base, size, "workspace"});
      args.push_back(sim::arg(base));
    }
    for (const Symbol& s : body.symbols().symbols()) args.push_back(sim::arg(symbols.at(s.name)));
    sim::LaunchConfig config;
    for (int d = 0; d < 3; ++d) {
      config.grid[d] = static_cast<uint32_t>(shape.grid[d].evaluate(symbols));
      config.block[d] = static_cast<uint32_t>(shape.block[d]);
    }
    config.dynamic_smem_bytes = static_cast<uint64_t>(shape.dynamic_smem_bytes.evaluate(symbols));
    config.threads = 1;
    config.check_races = config.check_uninitialized = check_shared;
    const bool empty = config.grid[0] == 0 || config.grid[1] == 0;
    config.completion = completion;
    if (edit_ptx) result.code.ptx = edit_ptx(result.code.ptx);
    if (!empty)
      result.counters = sim::launch(*sim::parse(result.code.ptx), result.code.entry, config, args, allocations);
    for (int w = 0; w < shape.zeroed_workspaces; ++w) {
      for (std::byte b : used[w]) EXPECT_EQ(b, std::byte{0}) << "the kernel leaves a counter that is not zero";
    }
    for (Memory* m : outputs) result.outputs.push_back(m->read());
    return result;
  }

  // All candidates whose condition holds at these sizes. `shift` elements misalign every tensor.
  void check(const Symbols& symbols, Tolerance extra = {}, int64_t shift = 0, uint64_t seed = 1) const {
    check(symbols, random_inputs(body, symbols, seed), extra, shift);
  }
  void check(const Symbols& symbols, const std::vector<InterpValue>& inputs, Tolerance extra = {},
             int64_t shift = 0) const {
    for (const std::string& why : proposal.why_none) ADD_FAILURE() << "no kernel: " << why;
    InterpOptions options;
    options.symbols = symbols;
    options.mode = mode;
    const std::vector<InterpValue> expected = interpret(body, inputs, options);
    int ran = 0;
    for (const Candidate& c : proposal.candidates) {
      if (!holds(c.condition, symbols, shift)) continue;
      ++ran;
      SCOPED_TRACE(print(c.schedule) + " on " + arch);
      try {
        const Run found = run(c.schedule, symbols, inputs, shift);
        for (size_t i = 0; i < expected.size(); ++i) {
          Tolerance tolerance = rounding_tolerance(expected[i].tensor().dtype);
          tolerance.relative += extra.relative;
          tolerance.absolute += extra.absolute;
          const Verdict close = all_close(found.outputs[i], expected[i].tensor(), tolerance);
          EXPECT_TRUE(close.ok) << "output " << i << ": " << close.why_not;
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
    EXPECT_GT(ran, 0) << "no candidate's condition holds";
  }

  Graph body;
  std::string arch;
  Context context;
  Proposal proposal;
  bool check_shared = false;                             // races in shared memory, and reads of what nobody wrote there
  InterpMode mode = InterpMode::kEager;                  // of what kernels are compared with
  sim::Completion completion = sim::Completion::kEager;  // of asynchronous copies
  std::function<std::string(std::string)> edit_ptx;      // plants a fault
};

}  // namespace tilewright
