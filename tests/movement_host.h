// A host in the place of backends/cute/movement_device.cuh: runs a kernel's blocks one after another, each thread of a
// block on its own stack up to the next point where threads meet or wait, and watches every access to global memory.
//
// Copies by the engine or asynchronous ones land as late as they may: when somebody waits for them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <ucontext.h>
#include <utility>
#include <vector>

#define MOVEMENT_DEVICE inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(n)

// Of a tiled map or of one by im2col: dimensions in elements of `bits`, strides in bytes, the box, the swizzle's span.
struct CUtensorMap {
    char *address;
    int bits, rank, span, columns;
    long long dim[5], stride[5];
    int box[5], step[5], lower[3], upper[3], channels, pixels;
};

namespace movement {

using Address = unsigned long long;
constexpr std::size_t stack_bytes = 256 << 10, shared_bytes = 232448;

struct Memory {
    char *start;
    long long size;
    uint8_t *written;  // how often each byte was
};
struct Barrier {
    int arrivals = 0, pending = 0, phase = 0;
    long long bytes = 0;
    std::vector<std::function<void()>> late;
};
struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(stack_bytes);
    bool done = false;
    std::function<bool()> blocked;
    std::vector<std::function<void()>> copies, stores;
    std::vector<std::vector<std::function<void()>>> copy_groups, store_groups;
};
struct Host {
    Memory source, target;
    ucontext_t scheduler;
    std::vector<Fiber> fibers;
    std::function<void()> kernel;
    int thread = 0, block = 0, met = 0, round = 0;
    long long faults = 0;
    std::map<uint64_t *, Barrier> barriers;
    alignas(1024) char shared[shared_bytes];
};
inline Host host;

inline void fault(char const *what) {
    if (!host.faults++) std::fprintf(stderr, "block %d, thread %d: %s\n", host.block, host.thread, what);
}
inline void until(std::function<bool()> ready) {
    host.fibers[host.thread].blocked = std::move(ready);
    swapcontext(&host.fibers[host.thread].context, &host.scheduler);
}
inline void enter() {
    host.kernel();
    Fiber &fiber = host.fibers[host.thread];
    if (!fiber.store_groups.empty()) fault("ends before its stores have read shared memory");
    fiber.done = true;
    swapcontext(&fiber.context, &host.scheduler);
}
inline int thread() { return host.thread; }
inline int block() { return host.block; }
inline char *shared_memory() { return host.shared; }
inline void meet() {
    int const mine = host.round;
    if (++host.met == static_cast<int>(host.fibers.size())) host.met = 0, ++host.round;
    until([mine] { return host.round > mine; });
}

inline void start(uint64_t *barrier, int arrivals) { host.barriers[barrier] = {arrivals, arrivals, 0, 0, {}}; }
inline void fence_start() {}
inline void fence_async() {}
inline void settle(Barrier &one) {
    if (one.pending == 0 && one.bytes == 0) one.pending = one.arrivals, ++one.phase;
}
inline void expect(uint64_t *barrier, int bytes) {
    Barrier &one = host.barriers.at(barrier);
    one.bytes += bytes, --one.pending;
    settle(one);
}
inline void complete(uint64_t *barrier, int bytes) {
    host.barriers.at(barrier).bytes -= bytes;
    settle(host.barriers.at(barrier));
}
inline void wait(uint64_t *barrier, int parity) {
    Barrier &one = host.barriers.at(barrier);
    auto late = std::move(one.late);
    one.late.clear();
    for (auto &copy : late) copy();
    until([&one, parity] { return one.phase % 2 != parity; });
}

inline bool inside(Memory const &memory, char const *at, long long size) {
    return at >= memory.start && at + size <= memory.start + memory.size;
}
inline void read(void *to, char const *from, long long size) {
    if (!inside(host.source, from, size)) return fault("reads outside the source");
    std::memcpy(to, from, size);
}
inline void write(char *to, void const *from, long long size) {
    if (!inside(host.target, to, size)) return fault("writes outside the target");
    std::memcpy(to, from, size);
    for (long long i = 0; i < size; ++i) ++host.target.written[to - host.target.start + i];
}

inline char *swizzled(void *base, long long offset, int span) {
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(base) - reinterpret_cast<std::uintptr_t>(host.shared) + offset;
    if (span) at ^= (at >> 7 & (span / 16 - 1)) << 4;
    return host.shared + at;
}

// Does something with each element of a box: its place in shared memory, whether the tensor has it, its bit there.
template <typename Do>
void elements(CUtensorMap const &map, void *base, std::vector<int> const &corner, Do const &each) {
    long long count = 1;
    for (int d = 0; d < map.rank; ++d) count *= map.box[d];
    for (long long number = 0; number < count; ++number) {
        long long rest = number, bit = 0;
        bool there = true;
        for (int d = 0; d < map.rank; ++d) {
            long long const at = corner[d] + rest % map.box[d];
            rest /= map.box[d];
            there &= at >= 0 && at < map.dim[d];
            bit += d ? at * map.stride[d] * 8 : at * map.bits;
        }
        each(number * map.bits, there, bit);
    }
}

inline void load_bits(CUtensorMap const &map, char *to, bool there, long long bit) {
    static char const zeros[16] = {};
    if (there) read(to, map.address + bit / 8, map.bits / 8);
    else std::memcpy(to, zeros, map.bits / 8);
}

template <typename... Rest>
void load_box(void *to, CUtensorMap const *map, uint64_t *barrier, Rest... rest) {
    std::vector<int> const corner{rest...};
    if (corner[0] * map->bits % 128) fault("a box begins inside a granule");
    if (static_cast<int>(corner.size()) != map->rank) fault("coordinates are not those of the map");
    host.barriers.at(barrier).late.push_back([=] {
        long long bits = 0;
        elements(*map, to, corner, [&](long long at, bool there, long long bit) {
            if (map->bits < 8) {  // pairs of elements
                if (at % 8 == 0) {
                    char *const place = swizzled(to, at / 8, map->span);
                    if (there) read(place, map->address + bit / 8, 1);
                    else *place = 0;
                }
            } else {
                load_bits(*map, swizzled(to, at / 8, map->span), there, bit);
            }
            bits += map->bits;
        });
        complete(barrier, static_cast<int>(bits / 8));
    });
}

template <typename... Rest>
void load_column(void *to, CUtensorMap const *map, uint64_t *barrier, Rest... rest) {
    std::vector<int> const given{rest...};
    std::vector<int> at(given.begin(), given.begin() + map->rank), tap(given.begin() + map->rank, given.end());
    host.barriers.at(barrier).late.push_back([=]() mutable {
        for (int pixel = 0; pixel < map->pixels; ++pixel) {
            for (int channel = 0; channel < map->channels; ++channel) {
                bool there = at[0] + channel < map->dim[0] && at[map->rank - 1] < map->dim[map->rank - 1];
                long long byte = (at[0] + channel) * (map->bits / 8) + at[map->rank - 1] * map->stride[map->rank - 1];
                for (int d = 1; d < map->rank - 1; ++d) {
                    int const seen = at[d] + tap[d - 1];
                    there &= seen >= 0 && seen < map->dim[d];
                    byte += seen * map->stride[d];
                }
                long long const number = static_cast<long long>(pixel) * map->channels + channel;
                load_bits(*map, swizzled(to, number * map->bits / 8, map->span), there, byte * 8);
            }
            for (int d = 1; d < map->rank; ++d) {  // the window moves on, from row to row and from image to image
                at[d] += d < map->rank - 1 ? map->step[d] : 1;
                if (d == map->rank - 1 || at[d] < map->dim[d] + map->upper[d - 1]) break;
                at[d] = map->lower[d - 1];
            }
        }
        complete(barrier, map->pixels * map->channels * map->bits / 8);
    });
}

template <typename... Rest>
void store_box(void const *from, CUtensorMap const *map, Rest... rest) {
    std::vector<int> const corner{rest...};
    void *const base = const_cast<void *>(from);
    host.fibers[host.thread].stores.push_back([=] {
        elements(*map, base, corner, [&](long long at, bool there, long long bit) {
            if (there && (map->bits >= 8 || at % 8 == 0)) {
                write(map->address + bit / 8, swizzled(base, at / 8, map->span), map->bits < 8 ? 1 : map->bits / 8);
            }
        });
    });
}
using Groups = std::vector<std::vector<std::function<void()>>>;
inline void flush(Groups &groups, std::size_t pending) {
    while (groups.size() > pending) {
        for (auto &one : groups.front()) one();
        groups.erase(groups.begin());
    }
}
inline void commit_stores() {
    Fiber &fiber = host.fibers[host.thread];
    fiber.store_groups.push_back(std::move(fiber.stores));
    fiber.stores.clear();
}
template <int pending> void wait_stores() { flush(host.fibers[host.thread].store_groups, pending); }

inline void load_run(void *to, Address from, int bytes, uint64_t *barrier) {
    if (from % 16 || bytes % 16 || reinterpret_cast<std::uintptr_t>(to) % 16) fault("a run is no run of granules");
    host.barriers.at(barrier).late.push_back([=] {
        read(to, reinterpret_cast<char const *>(from), bytes);
        complete(barrier, bytes);
    });
}

template <int bytes> void copy_in(void *to, Address from, bool there) {
    if ((there && from % bytes) || reinterpret_cast<std::uintptr_t>(to) % bytes) fault("a copy is misaligned");
    host.fibers[host.thread].copies.push_back([=] {
        if (there) read(to, reinterpret_cast<char const *>(from), bytes);
        else std::memset(to, 0, bytes);
    });
}
inline void commit_copies() {
    Fiber &fiber = host.fibers[host.thread];
    fiber.copy_groups.push_back(std::move(fiber.copies));
    fiber.copies.clear();
}
template <int pending> void wait_copies() { flush(host.fibers[host.thread].copy_groups, pending); }

template <int bytes> void get(void *words, void const *shared) {
    if (reinterpret_cast<std::uintptr_t>(shared) % bytes) fault("a read of shared memory is misaligned");
    std::memcpy(words, shared, bytes);
}
template <int bytes> void put(void const *words, void *shared) {
    if (reinterpret_cast<std::uintptr_t>(shared) % bytes) fault("a write of shared memory is misaligned");
    std::memcpy(shared, words, bytes);
}
template <int bytes> void load(void *words, Address from) {
    if (from % bytes) return fault("a load is misaligned");
    read(words, reinterpret_cast<char const *>(from), bytes);
}
template <int bytes> void store(void const *words, Address to) {
    if (to % bytes) return fault("a store is misaligned");
    write(reinterpret_cast<char *>(to), words, bytes);
}

// Runs a kernel's blocks; returns how many accesses were wrong, or -1 where nobody can go on.
inline long long run_kernel(int blocks, int threads, std::function<void()> kernel, Memory source, Memory target) {
    host.source = source, host.target = target, host.kernel = std::move(kernel), host.faults = 0;
    host.fibers.resize(threads);
    for (host.block = 0; host.block < blocks; ++host.block) {
        std::memset(host.shared, 0xCD, shared_bytes);
        host.barriers.clear();
        host.met = host.round = 0;
        for (Fiber &fiber : host.fibers) {
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data();
            fiber.context.uc_stack.ss_size = fiber.stack.size();
            fiber.context.uc_link = nullptr;
            makecontext(&fiber.context, enter, 0);
            fiber.done = false;
            fiber.blocked = nullptr;
            fiber.copies.clear(), fiber.stores.clear(), fiber.copy_groups.clear(), fiber.store_groups.clear();
        }
        for (bool left = true, moved = true; left; moved = false) {
            left = false;
            for (int i = 0; i < threads; ++i) {
                Fiber &fiber = host.fibers[host.thread = i];
                if (fiber.done) continue;
                left = true;
                if (fiber.blocked && !fiber.blocked()) continue;
                fiber.blocked = nullptr;
                moved = true;
                swapcontext(&host.scheduler, &fiber.context);
            }
            if (left && !moved) return -1;
        }
    }
    return host.faults;
}

}  // namespace movement
