/* report/doctor_report.c: each access, what denies it, each way out. */
#include "report/doctor_report.h"

#include "report/screen.h"

#include "proc/process.h"

#include <stdio.h>
#include <string.h>

static void json_blockers(struct mw_json *json, const struct mw_doctor *doctor,
                          const struct mw_doctor_check *check)
{
    struct mw_doctor_blocker blockers[MW_DOCTOR_BLOCKERS_MAX];
    size_t count = check->allowed ? 0 : mw_doctor_explain(&doctor->facts, check, blockers);
    mw_json_array_begin(json);
    for (size_t i = 0; i < count; i++) {
        mw_field_object_begin(json, MW_SCOPE_blocker);
        mw_field_text(json, MW_F(blocker, id), blockers[i].id);
        mw_field_text(json, MW_F(blocker, why), blockers[i].why);
        mw_field_key(json, MW_F(blocker, ways_out));
        mw_json_array_begin(json);
        for (size_t k = 0; blockers[i].ways_out[k]; k++)
            mw_json_put_text(json, blockers[i].ways_out[k]);
        mw_json_array_end(json);
        mw_field_object_end(json);
    }
    mw_json_array_end(json);
}

/* Names and values of what decides; shared by both forms. */
enum { FACTS_MAX = 12 };
struct fact {
    const char *name;
    char value[160];
};

static size_t facts_format(const struct mw_doctor_facts *facts, struct fact rows[FACTS_MAX])
{
    static const char *const seccomp[] = {"none", "strict", "filter"};
    size_t count = 0;
    rows[count] = (struct fact){.name = "uid"};
    snprintf(rows[count++].value, sizeof rows->value, "%u", facts->euid);
    rows[count] = (struct fact){.name = "CAP_SYS_PTRACE"};
    snprintf(rows[count++].value, sizeof rows->value, "%s",
             mw_doctor_has_cap(facts, MW_CAP_SYS_PTRACE) ? "yes" : "no");
    rows[count] = (struct fact){.name = "yama.ptrace_scope"};
    if (facts->yama < 0)
        snprintf(rows[count++].value, sizeof rows->value, "no Yama");
    else
        snprintf(rows[count++].value, sizeof rows->value, "%d", facts->yama);
    rows[count] = (struct fact){.name = "seccomp"};
    snprintf(rows[count++].value, sizeof rows->value, "%s",
             facts->seccomp >= 0 && facts->seccomp < 3 ? seccomp[facts->seccomp] : "?");
    rows[count] = (struct fact){.name = "user namespace"};
    snprintf(rows[count++].value, sizeof rows->value, "%s",
             facts->initial_userns ? "the machine's" : "a child");
    rows[count] = (struct fact){.name = "security label"};
    snprintf(rows[count++].value, sizeof rows->value, "%s",
             facts->label[0] ? facts->label : "none");
    if (!facts->has_target)
        return count;
    rows[count] = (struct fact){.name = "target's uid"};
    snprintf(rows[count++].value, sizeof rows->value, "%u", facts->target_euid);
    rows[count] = (struct fact){.name = "target's tracer"};
    snprintf(rows[count++].value, sizeof rows->value, "%d", facts->tracer_pid);
    rows[count] = (struct fact){.name = "target's label"};
    snprintf(rows[count++].value, sizeof rows->value, "%s",
             facts->target_label[0] ? facts->target_label : "none");
    rows[count] = (struct fact){.name = "target dumpable"};
    snprintf(rows[count++].value, sizeof rows->value, "%s", facts->not_dumpable ? "no" : "yes");
    return count;
}

enum mw_status mw_report_doctor_json(const struct mw_doctor *doctor, struct mw_sink sink,
                                     struct mw_error *err)
{
    struct fact facts[FACTS_MAX];
    size_t fact_count = facts_format(&doctor->facts, facts);
    struct mw_json json;
    mw_json_init(&json, sink);
    mw_field_object_begin(&json, MW_SCOPE_doctor);
    mw_field_text(&json, MW_F(doctor, schema), "memwhy.doctor/1");
    mw_field_text(&json, MW_F(doctor, memwhy_version), MW_VERSION);
    mw_field_u64(&json, MW_F(doctor, pid),
                 doctor->facts.has_target ? (uint64_t)doctor->facts.pid : MW_UNKNOWN);
    mw_field_text(&json, MW_F(doctor, kernel), doctor->facts.kernel);
    mw_field_key(&json, MW_F(doctor, checks));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < doctor->check_count; i++) {
        const struct mw_doctor_check *check = &doctor->checks[i];
        mw_field_object_begin(&json, MW_SCOPE_check);
        mw_field_text(&json, MW_F(check, id), mw_doctor_access_name(check->access));
        mw_field_bool(&json, MW_F(check, allowed), check->allowed);
        mw_field_bool(&json, MW_F(check, needed), mw_doctor_access_is_needed(check->access));
        mw_field_text(&json, MW_F(check, needed_for), mw_doctor_access_purpose(check->access));
        mw_field_text(&json, MW_F(check, error),
                      check->os_errno ? strerrorname_np(check->os_errno) : NULL);
        mw_field_key(&json, MW_F(check, blocked_by));
        json_blockers(&json, doctor, check);
        mw_field_object_end(&json);
    }
    mw_json_array_end(&json);
    mw_field_key(&json, MW_F(doctor, facts));
    mw_json_array_begin(&json);
    for (size_t i = 0; i < fact_count; i++) {
        mw_field_object_begin(&json, MW_SCOPE_fact);
        mw_field_text(&json, MW_F(fact, name), facts[i].name);
        mw_field_text(&json, MW_F(fact, value), facts[i].value);
        mw_field_object_end(&json);
    }
    mw_json_array_end(&json);
    mw_field_object_end(&json);
    return mw_json_finish(&json, err);
}

static void put_facts(struct mw_text *text, const struct mw_doctor_facts *facts)
{
    struct fact rows[FACTS_MAX];
    size_t count = facts_format(facts, rows);
    if (facts->has_target)
        mw_text_printf(text, MW_STYLE_PLAIN, "memwhy doctor %d  kernel %s", facts->pid,
                       facts->kernel);
    else
        mw_text_printf(text, MW_STYLE_PLAIN, "memwhy doctor  kernel %s  on a child of its own",
                       facts->kernel);
    mw_text_newline(text);
    mw_text_pad(text, 2);
    for (size_t i = 0; i < count; i++) {
        unsigned needed = mw_text_width(rows[i].name) + mw_text_width(rows[i].value) + 4;
        if (text->column > 2 && text->column + needed > text->look.width) {
            mw_text_newline(text);
            mw_text_pad(text, 2);
        } else if (text->column > 2) {
            mw_text_pad(text, text->column + 3);
        }
        mw_text_printf(text, MW_STYLE_PLAIN, "%s %s", rows[i].name, rows[i].value);
    }
    mw_text_newline(text);
    mw_text_newline(text);
}

static void put_blockers(struct mw_text *text, const struct mw_doctor *doctor,
                         const struct mw_doctor_check *check)
{
    struct mw_doctor_blocker blockers[MW_DOCTOR_BLOCKERS_MAX];
    size_t count = mw_doctor_explain(&doctor->facts, check, blockers);
    for (size_t i = 0; i < count; i++) {
        mw_text_pad(text, 4);
        mw_text_printf(text, MW_STYLE_BOLD, "%s", blockers[i].id);
        mw_text_pad(text, 16);
        mw_text_wrap(text, 16, 0, MW_STYLE_PLAIN, blockers[i].why);
        mw_text_newline(text);
        for (size_t k = 0; blockers[i].ways_out[k]; k++) {
            mw_text_pad(text, 6);
            mw_text_put(text, MW_STYLE_PLAIN, k == 0 ? "way out" : "or");
            mw_text_pad(text, 16);
            mw_text_wrap(text, 16, 0, MW_STYLE_PLAIN, blockers[i].ways_out[k]);
            mw_text_newline(text);
        }
    }
}

/* The same blockers again need no second printing: what denies one access denies its like. */
static bool explained_before(const struct mw_doctor *doctor, size_t index)
{
    struct mw_doctor_blocker ours[MW_DOCTOR_BLOCKERS_MAX], theirs[MW_DOCTOR_BLOCKERS_MAX];
    size_t count = mw_doctor_explain(&doctor->facts, &doctor->checks[index], ours);
    for (size_t i = 0; i < index; i++) {
        if (doctor->checks[i].allowed)
            continue;
        size_t other = mw_doctor_explain(&doctor->facts, &doctor->checks[i], theirs);
        bool same = other == count;
        for (size_t k = 0; same && k < count; k++)
            same = strcmp(ours[k].id, theirs[k].id) == 0 && strcmp(ours[k].why, theirs[k].why) == 0;
        if (same)
            return true;
    }
    return false;
}

static void put_check(struct mw_text *text, const struct mw_doctor *doctor, size_t index)
{
    const struct mw_doctor_check *check = &doctor->checks[index];
    bool is_needed = mw_doctor_access_is_needed(check->access);
    mw_text_pad(text, 2);
    mw_text_put(text, MW_STYLE_PLAIN, mw_doctor_access_name(check->access));
    mw_text_pad(text, 20);
    mw_text_put(text, check->allowed ? MW_STYLE_PLAIN : MW_STYLE_BOLD,
                check->allowed ? "yes" : "no");
    mw_text_pad(text, 25);
    mw_text_put(text, MW_STYLE_PLAIN, mw_doctor_access_purpose(check->access));
    if (!check->allowed && check->os_errno)
        mw_text_printf(text, MW_STYLE_PLAIN, "  (%s)", strerrorname_np(check->os_errno));
    mw_text_newline(text);
    if (!check->allowed && (is_needed || check->access == MW_ACCESS_VM_READV) &&
        !explained_before(doctor, index))
        put_blockers(text, doctor, check);
}

/* What follows from what was tried: a report needs the mappings, its heap the rest. */
static const char *conclusion(const struct mw_doctor *doctor, size_t denied)
{
    bool is_denied[MW_ACCESS_COUNT] = {false};
    for (size_t i = 0; i < doctor->check_count; i++)
        is_denied[doctor->checks[i].access] = !doctor->checks[i].allowed;
    if (is_denied[MW_ACCESS_SMAPS])
        return "Without smaps nothing can be said of this process: a report ends with exit code 3.";
    if (is_denied[MW_ACCESS_MEM] || is_denied[MW_ACCESS_PTRACE])
        return "Without these the report stays at the level of mappings (exit code 4): memwhy "
               "--no-heap PID asks for no more than that.";
    if (is_denied[MW_ACCESS_OTHERS])
        return "Reports on processes that memwhy did not start stay at the level of mappings (exit "
               "code 4), or are denied (exit code 3).";
    if (denied > 0)
        return "Without this a report knows less of what is resident, and gives no prediction.";
    if (is_denied[MW_ACCESS_OTHER_USERS])
        return "Everything that memwhy needs works on processes of this user; those of others need "
               "CAP_SYS_PTRACE: sudo memwhy PID.";
    return "Everything that memwhy needs works.";
}

enum mw_status mw_report_doctor_text(const struct mw_doctor *doctor, struct mw_text_look look,
                                     struct mw_sink sink, struct mw_error *err)
{
    struct mw_text text;
    size_t denied = 0;
    mw_text_init(&text, sink, look);
    put_facts(&text, &doctor->facts);
    mw_text_put(&text, MW_STYLE_BOLD, "ACCESS");
    mw_text_pad(&text, 20);
    mw_text_put(&text, MW_STYLE_BOLD, "works");
    mw_text_pad(&text, 25);
    mw_text_put(&text, MW_STYLE_BOLD, " for");
    mw_text_newline(&text);
    for (size_t i = 0; i < doctor->check_count; i++) {
        put_check(&text, doctor, i);
        denied +=
            !doctor->checks[i].allowed && mw_doctor_access_is_needed(doctor->checks[i].access);
    }
    mw_text_newline(&text);
    mw_text_wrap(&text, 0, 0, MW_STYLE_PLAIN, conclusion(doctor, denied));
    return mw_text_finish(&text, err);
}
