/* A libnvidia-ml.so.1 without hardware, steered by two files in the folder that this library lies in:
 *
 *   state   one thing a line, fields separated by tabs; read again whenever the file is replaced
 *             driver\t550.90.07
 *             set\tKEY\tVALUE              KEY of the whole library: init_error wait_error set_error hang
 *             card\tUUID\tKEY=VALUE...     in the order of their indices
 *             instance\tUUID\tKEY=VALUE... a MIG instance of the card above; KEY place is where the driver lists it
 *   events  lines "UUID TYPE DATA [GI CI]", appended; delivered to event sets made before they were written
 *
 * `hang` holds the call (of a card: every call on it; of the library: the symbol named by it) until the state
 * no longer says so, as a wedged driver does. A card that was listed once and no longer is
 * answers GPU_IS_LOST to those who kept its handle. Built with -DOLD_DRIVER the library lacks what drivers
 * learned later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
    TIMED_OUT = 10, BAD_INFOROM = 14, LOST = 15,
};
enum { CARDS = 96, LINKS = 36, PROCESSES = 16, VALUES = 16, NONE = -1 };

typedef struct { unsigned pid; unsigned long long mib; } Process;
typedef struct { unsigned field; unsigned long long value; } Value;

typedef struct Card {
    char uuid[96], name[96], serial[32], pci[32];
    int minor, mig, recovery, error, hang, listed, group, switched;
    long long memory_mib, reserved_mib, used_mib, ecc, ecc_aggregate, ecc_corrected;
    int unrepairable, margin;
    int remap_pending, remap_failed, retired_pending, inforom_corrupt, sram_exceeded;
    int width, width_max, generation, generation_max, replays, busy_percent, fabric, fabric_status;
    unsigned long long clocks;
    int links, processes, values;
    char link[LINKS][32];
    Process process[PROCESSES];
    Value value[VALUES];
    struct Card *parent; /* of a MIG instance, which is a card of its own here */
    int place, gi, ci, slices, compute_slices;
} Card;

typedef Card *Handle;
typedef struct { long offset; Handle card[CARDS]; unsigned long long mask[CARDS]; int cards; } Set;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Card table[CARDS];      /* a card keeps its place here, and so its handle, for ever */
static Handle order[CARDS];    /* by index; without instances */
static int known, count, init_error, wait_error, set_error, started;
static char driver[80], hanging[80], folder[4096];
static struct timespec read_at;
static ino_t read_inode;
static atomic_uint waits, sets, delivered;

unsigned fake_waits(void) { return waits; }
unsigned fake_sets(void) { return sets; }
unsigned fake_delivered(void) { return delivered; }

static const char *in_folder(const char *file) {
    static __thread char path[4200];
    Dl_info info;
    if (!folder[0] && dladdr((void *)fake_waits, &info)) {
        snprintf(folder, sizeof folder, "%s", info.dli_fname);
        char *slash = strrchr(folder, '/');
        if (slash) *slash = 0; else strcpy(folder, ".");
    }
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static Card *card_of(const char *uuid) {
    for (int i = 0; i < known; i++)
        if (!strcmp(table[i].uuid, uuid)) return &table[i];
    if (known == CARDS) return NULL;
    snprintf(table[known].uuid, sizeof table[known].uuid, "%s", uuid);
    return &table[known++];
}

#define TEXT(field) if (!strcmp(key, #field)) snprintf(card->field, sizeof card->field, "%s", value)
#define NUMBER(field) if (!strcmp(key, #field)) card->field = strtoll(value, NULL, 0)

static void read_item(Card *card, char *key, char *value) {
    char *rest, *one;
    TEXT(name); TEXT(serial); TEXT(pci);
    NUMBER(minor); NUMBER(mig); NUMBER(recovery); NUMBER(error); NUMBER(hang); NUMBER(group); NUMBER(switched);
    NUMBER(memory_mib); NUMBER(reserved_mib); NUMBER(used_mib); NUMBER(ecc); NUMBER(ecc_aggregate); NUMBER(clocks);
    NUMBER(remap_pending); NUMBER(remap_failed); NUMBER(retired_pending); NUMBER(inforom_corrupt);
    NUMBER(sram_exceeded); NUMBER(width); NUMBER(width_max); NUMBER(generation); NUMBER(generation_max);
    NUMBER(replays); NUMBER(busy_percent); NUMBER(fabric); NUMBER(fabric_status);
    NUMBER(ecc_corrected); NUMBER(unrepairable); NUMBER(margin);
    NUMBER(place); NUMBER(gi); NUMBER(ci); NUMBER(slices); NUMBER(compute_slices);
    if (!strcmp(key, "values"))
        for (one = strtok_r(value, ",", &rest); one && card->values < VALUES; one = strtok_r(NULL, ",", &rest))
            if (sscanf(one, "%u:%llu", &card->value[card->values].field, &card->value[card->values].value) == 2)
                card->values++;
    if (!strcmp(key, "links"))
        for (one = strtok_r(value, ",", &rest); one && card->links < LINKS; one = strtok_r(NULL, ",", &rest))
            snprintf(card->link[card->links++], 32, "%s", one);
    if (!strcmp(key, "processes"))
        for (one = strtok_r(value, ",", &rest); one && card->processes < PROCESSES; one = strtok_r(NULL, ",", &rest))
            if (sscanf(one, "%u:%llu", &card->process[card->processes].pid, &card->process[card->processes].mib) == 2)
                card->processes++;
}

static void read_line(char *line) {
    char *rest, *kind = strtok_r(line, "\t\n", &rest), *name = strtok_r(NULL, "\t\n", &rest), *item;
    if (!kind || !name) return;
    if (!strcmp(kind, "driver")) snprintf(driver, sizeof driver, "%s", name);
    if (!strcmp(kind, "set") && (item = strtok_r(NULL, "\t\n", &rest))) {
        if (!strcmp(name, "init_error")) init_error = atoi(item);
        if (!strcmp(name, "wait_error")) wait_error = atoi(item);
        if (!strcmp(name, "set_error")) set_error = atoi(item);
        if (!strcmp(name, "hang")) snprintf(hanging, sizeof hanging, "%s", item);
    }
    int instance = !strcmp(kind, "instance");
    if ((!instance && strcmp(kind, "card")) || count == CARDS || (instance && !count)) return;
    Card *card = card_of(name);
    if (!card) return;
    char uuid[96];
    memcpy(uuid, card->uuid, sizeof uuid);
    memset(card, 0, sizeof *card);
    memcpy(card->uuid, uuid, sizeof uuid);
    card->mig = card->recovery = card->group = card->minor = NONE;
    card->memory_mib = card->ecc = card->ecc_aggregate = card->ecc_corrected = NONE;
    card->unrepairable = card->margin = NONE;
    card->inforom_corrupt = card->sram_exceeded = card->width = card->width_max = card->generation = NONE;
    card->generation_max = card->replays = card->busy_percent = card->fabric = NONE;
    card->listed = 1;
    if (instance) card->parent = order[count - 1];
    else order[count++] = card;
    while ((item = strtok_r(NULL, "\t\n", &rest))) {
        char *value = strchr(item, '=');
        if (!value) continue;
        *value++ = 0;
        read_item(card, item, value);
    }
}

static void refresh(void) {
    struct stat now;
    char line[4096];
    if (stat(in_folder("state"), &now)) return;
    if (now.st_ino == read_inode && now.st_mtim.tv_sec == read_at.tv_sec && now.st_mtim.tv_nsec == read_at.tv_nsec)
        return;
    FILE *file = fopen(in_folder("state"), "r");
    if (!file) return;
    read_inode = now.st_ino;
    read_at = now.st_mtim;
    count = init_error = wait_error = set_error = 0;
    hanging[0] = driver[0] = 0;
    for (int i = 0; i < known; i++) table[i].listed = table[i].hang = 0;
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
}

/* Takes the lock and leaves it held; waits outside of it while the call is told to hang. */
static int enter(Handle card, const char *symbol) {
    pthread_mutex_lock(&lock);
    for (refresh(); !strcmp(hanging, symbol) || (card && (card->hang || (card->parent && card->parent->hang)));
         refresh()) {
        pthread_mutex_unlock(&lock);
        usleep(10000);
        pthread_mutex_lock(&lock);
    }
    if (init_error && started) return init_error;
    if (!started && strcmp(symbol, "nvmlInitWithFlags")) return UNINITIALIZED;
    if (card && card->parent && (!card->parent->listed || card->parent->error))
        return card->parent->listed ? card->parent->error : LOST;
    if (card && !card->listed) return card->parent ? NOT_FOUND : LOST;
    return card ? card->error : OK;
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER(card) do { int entered = enter(card, __func__); if (entered) return leave(entered); } while (0)
#define COPY(text) do { if (size <= strlen(text)) return leave(TOO_SMALL); strcpy(to, text); return leave(OK); } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(NULL);
    if (init_error) return leave(init_error);
    started = 1;
    return leave(OK);
}

int nvmlShutdown(void) {
    ENTER(NULL);
    started = 0;
    return leave(OK);
}

const char *nvmlErrorString(int code) {
    static __thread char text[32];
    snprintf(text, sizeof text, "error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER(NULL); COPY(driver); }

int nvmlDeviceGetCount_v2(unsigned *to) { ENTER(NULL); *to = count; return leave(OK); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *to) {
    ENTER(NULL);
    if (index >= (unsigned)count) return leave(INVALID);
    *to = order[index];
    return leave(OK);
}

int nvmlDeviceGetUUID(Handle card, char *to, unsigned size) { ENTER(card); COPY(card->uuid); }
int nvmlDeviceGetName(Handle card, char *to, unsigned size) { ENTER(card); COPY(card->name); }

int nvmlDeviceGetSerial(Handle card, char *to, unsigned size) {
    ENTER(card);
    if (!card->serial[0]) return leave(NOT_SUPPORTED);
    COPY(card->serial);
}

int nvmlDeviceGetMinorNumber(Handle card, unsigned *to) {
    ENTER(card);
    if (card->minor == NONE) return leave(NOT_SUPPORTED);
    *to = card->minor;
    return leave(OK);
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;

static void put_pci(Pci *to, const char *text) {
    memset(to, 0, sizeof *to);
    sscanf(text, "%x:%x:%x", &to->domain, &to->bus, &to->device);
    snprintf(to->bus_id, sizeof to->bus_id, "%08X:%02X:%02X.0", to->domain, to->bus, to->device);
}

int nvmlDeviceGetPciInfo_v3(Handle card, Pci *to) {
    ENTER(card);
    if (!card->pci[0]) return leave(NOT_SUPPORTED);
    put_pci(to, card->pci);
    return leave(OK);
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;

int nvmlDeviceGetMemoryInfo(Handle card, Memory *to) {
    ENTER(card);
    if (card->memory_mib == NONE) return leave(NOT_SUPPORTED);
    *to = (Memory){.total = card->memory_mib << 20, .used = (card->reserved_mib + card->used_mib) << 20};
    to->free = to->total - to->used;
    return leave(OK);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(Handle card, Memory2 *to) {
    ENTER(card);
    if (card->memory_mib == NONE) return leave(NOT_SUPPORTED);
    to->total = card->memory_mib << 20;
    to->reserved = card->reserved_mib << 20;
    to->used = card->used_mib << 20;
    to->free = to->total - to->reserved - to->used;
    return leave(OK);
}
#endif

int nvmlDeviceGetTopologyCommonAncestor(Handle card, Handle other, int *to) {
    ENTER(card);
    if (card->group == NONE) return leave(NOT_SUPPORTED);
    *to = card->group == other->group ? 10 : 50;
    return leave(OK);
}

int nvmlDeviceGetNvLinkState(Handle card, unsigned link, int *to) {
    ENTER(card);
    if (link >= (unsigned)card->links) return leave(link ? INVALID : NOT_SUPPORTED);
    *to = strcmp(card->link[link], "down") != 0;
    return leave(OK);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Handle card, unsigned link, int *to) {
    ENTER(card);
    if (link >= (unsigned)card->links) return leave(INVALID);
    *to = card->switched ? 2 : 0;
    return leave(OK);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle card, unsigned link, Pci *to) {
    ENTER(card);
    if (link >= (unsigned)card->links) return leave(INVALID);
    put_pci(to, card->link[link]);
    return leave(OK);
}

int nvmlDeviceGetMigMode(Handle card, unsigned *current, unsigned *pending) {
    ENTER(card);
    if (card->mig == NONE) return leave(NOT_SUPPORTED);
    *current = *pending = card->mig;
    return leave(OK);
}

int nvmlDeviceGetMaxMigDeviceCount(Handle card, unsigned *to) {
    ENTER(card);
    *to = card->mig == NONE ? 0 : 7;
    return leave(OK);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Handle card, unsigned index, Handle *to) {
    ENTER(card);
    for (int i = 0; i < known; i++)
        if (table[i].listed && table[i].parent == card && (unsigned)table[i].place == index) {
            *to = &table[i];
            return leave(OK);
        }
    return leave(NOT_FOUND);
}

int nvmlDeviceGetGpuInstanceId(Handle instance, unsigned *to) {
    ENTER(instance);
    if (!instance->parent) return leave(INVALID);
    *to = instance->gi;
    return leave(OK);
}

int nvmlDeviceGetComputeInstanceId(Handle instance, unsigned *to) {
    ENTER(instance);
    if (!instance->parent) return leave(INVALID);
    *to = instance->ci;
    return leave(OK);
}

typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, flow, slices, compute_slices;
    unsigned long long memory_mib;
} Attributes;

int nvmlDeviceGetAttributes_v2(Handle instance, Attributes *to) {
    ENTER(instance);
    if (!instance->parent) return leave(INVALID);
    *to = (Attributes){.slices = instance->slices, .compute_slices = instance->compute_slices};
    to->multiprocessors = 14 * instance->compute_slices;
    to->memory_mib = instance->memory_mib;
    return leave(OK);
}

typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } ProcessInfo;

int nvmlDeviceGetComputeRunningProcesses_v3(Handle card, unsigned *size, ProcessInfo *to) {
    ENTER(card);
    int fits = to && *size >= (unsigned)card->processes;
    *size = card->processes;
    if (!fits) return leave(card->processes ? TOO_SMALL : OK);
    for (int i = 0; i < card->processes; i++)
        to[i] = (ProcessInfo){card->process[i].pid, card->process[i].mib << 20, ~0u, ~0u};
    return leave(OK);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle card, unsigned *size, ProcessInfo *to) {
    (void)to;
    ENTER(card);
    *size = 0;
    return leave(OK);
}

int nvmlDeviceGetTotalEccErrors(Handle card, int type, int counter, unsigned long long *to) {
    ENTER(card);
    long long errors = type == 0 ? (counter ? NONE : card->ecc_corrected) : counter ? card->ecc_aggregate : card->ecc;
    if (errors == NONE) return leave(NOT_SUPPORTED);
    *to = errors;
    return leave(OK);
}

/* Of an instance, and there only what is not memory: location 2. */
int nvmlDeviceGetMemoryErrorCounter(Handle card, int type, int counter, int location, unsigned long long *to) {
    (void)type;
    ENTER(card);
    if (!card->parent || counter || location == 2 || card->ecc == NONE) return leave(NOT_SUPPORTED);
    *to = card->ecc;
    return leave(OK);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetRemappedRows(Handle card, unsigned *corr, unsigned *uncorr, unsigned *pending, unsigned *failed) {
    ENTER(card);
    if (card->mig == 1) return leave(NOT_SUPPORTED);
    *corr = *uncorr = 0;
    *pending = card->remap_pending;
    *failed = card->remap_failed;
    return leave(OK);
}
#endif

int nvmlDeviceGetRetiredPagesPendingStatus(Handle card, int *to) {
    ENTER(card);
    *to = card->retired_pending;
    return leave(OK);
}

#ifdef OLD_DRIVER
#define nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons
#endif
int nvmlDeviceGetCurrentClocksEventReasons(Handle card, unsigned long long *to) {
    ENTER(card);
    *to = card->clocks;
    return leave(OK);
}

typedef struct {
    unsigned field, scope;
    long long at, latency;
    unsigned type;
    int code;
    union { double d; unsigned u; unsigned long long ull; } value;
} Field;

#ifndef OLD_DRIVER
int nvmlDeviceGetFieldValues(Handle card, int fields, Field *to) {
    ENTER(card);
    for (int i = 0; i < fields; i++) {
        to[i].code = to[i].field == 230 && card->recovery != NONE ? OK : NOT_SUPPORTED;
        to[i].type = 1;
        to[i].value.u = card->recovery;
        for (int j = 0; j < card->values; j++)
            if (card->value[j].field == to[i].field) {
                to[i].code = OK;
                to[i].type = (long long)card->value[j].value < 0 ? 5 : 3;
                to[i].value.ull = card->value[j].value;
            }
    }
    return leave(OK);
}
#endif

/* Calls of the form "one number of a card", which a card may not have. */
#define ONE_NUMBER(symbol, field) \
    int symbol(Handle card, unsigned *to) { \
        ENTER(card); \
        if (card->field == NONE) return leave(NOT_SUPPORTED); \
        *to = card->field; \
        return leave(OK); \
    }

ONE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, width)
ONE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, width_max)
ONE_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, generation)
ONE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, generation_max)
ONE_NUMBER(nvmlDeviceGetPcieReplayCounter, replays)

typedef struct { unsigned gpu, memory; } Utilization;

int nvmlDeviceGetUtilizationRates(Handle card, Utilization *to) {
    ENTER(card);
    if (card->busy_percent == NONE) return leave(NOT_SUPPORTED);
    *to = (Utilization){card->busy_percent, 0};
    return leave(OK);
}

#ifndef OLD_DRIVER
int nvmlDeviceValidateInforom(Handle card) {
    ENTER(card);
    if (card->inforom_corrupt == NONE) return leave(NOT_SUPPORTED);
    return leave(card->inforom_corrupt ? BAD_INFOROM : OK);
}

typedef struct { unsigned version; unsigned long long counts[11]; unsigned exceeded; } Sram;

int nvmlDeviceGetSramEccErrorStatus(Handle card, Sram *to) {
    ENTER(card);
    if (card->sram_exceeded == NONE) return leave(NOT_SUPPORTED);
    to->exceeded = card->sram_exceeded;
    return leave(OK);
}

typedef struct { unsigned version; int number; } OneNumber;

int nvmlDeviceGetUnrepairableMemoryFlag_v1(Handle card, OneNumber *to) {
    ENTER(card);
    if (card->unrepairable == NONE) return leave(NOT_SUPPORTED);
    to->number = card->unrepairable;
    return leave(OK);
}

int nvmlDeviceGetMarginTemperature(Handle card, OneNumber *to) {
    ENTER(card);
    if (card->margin == NONE) return leave(NOT_SUPPORTED);
    to->number = card->margin;
    return leave(OK);
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
} Fabric;

int nvmlDeviceGetGpuFabricInfoV(Handle card, Fabric *to) {
    ENTER(card);
    if (card->fabric == NONE) return leave(NOT_SUPPORTED);
    to->status = card->fabric_status;
    to->state = card->fabric;
    return leave(OK);
}
#endif

static long events_end(void) {
    struct stat now;
    return stat(in_folder("events"), &now) ? 0 : now.st_size;
}

int nvmlEventSetCreate(Set **to) {
    ENTER(NULL);
    sets++;
    if (set_error) return leave(set_error);
    *to = calloc(1, sizeof **to);
    (*to)->offset = events_end();
    return leave(OK);
}

int nvmlEventSetFree(Set *set) {
    ENTER(NULL);
    free(set);
    return leave(OK);
}

int nvmlDeviceGetSupportedEventTypes(Handle card, unsigned long long *to) {
    ENTER(card);
    *to = 0xD9B;
    return leave(OK);
}

int nvmlDeviceRegisterEvents(Handle card, unsigned long long types, Set *set) {
    ENTER(card);
    set->card[set->cards] = card;
    set->mask[set->cards++] = types;
    return leave(OK);
}

typedef struct { Handle device; unsigned long long type, data; unsigned gi, ci; } Event;

static int next_event(Set *set, Event *to) {
    char line[256], uuid[96];
    FILE *file = fopen(in_folder("events"), "r");
    int found = 0;
    if (!file) return 0;
    fseek(file, set->offset, SEEK_SET);
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        set->offset = ftell(file);
        to->gi = to->ci = ~0u;
        if (sscanf(line, "%95s %llu %llu %u %u", uuid, &to->type, &to->data, &to->gi, &to->ci) < 3) continue;
        for (int i = 0; i < set->cards; i++)
            if (!strcmp(set->card[i]->uuid, uuid) && (set->mask[i] & to->type)) {
                to->device = set->card[i];
                found = 1;
            }
    }
    fclose(file);
    return found;
}

int nvmlEventSetWait_v2(Set *set, Event *to, unsigned timeout_ms) {
    waits++;
    for (unsigned waited = 0;; waited += 5) {
        ENTER(NULL);
        if (wait_error) return leave(wait_error);
        if (next_event(set, to)) {
            delivered++;
            return leave(OK);
        }
        leave(OK);
        if (waited >= timeout_ms) return TIMED_OUT;
        usleep(5000);
    }
}
